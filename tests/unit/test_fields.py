"""The registry of task fields: complete, consistent, and in step with the documentation."""

from datetime import UTC, datetime

import pytest

from dcron.errors import UsageError
from dcron.fields import BY_DIRECTIVE, CLEARABLE, FIELDS, GROUPS, OPTIONS, Field
from dcron.model import DEFINITION_FIELDS, SPEC_DEFAULTS
from scripts import option_table


@pytest.fixture(params=FIELDS.values(), ids=lambda field: field.name)
def field(request: pytest.FixtureRequest) -> Field:
    declared: Field = request.param
    return declared


def test_every_field_of_a_definition_is_declared() -> None:
    assert set(FIELDS) == set(DEFINITION_FIELDS)
    assert [field.group for field in FIELDS.values()] == sorted(
        (field.group for field in FIELDS.values()), key=GROUPS.index
    )


def test_no_two_fields_share_a_name() -> None:
    assert len(BY_DIRECTIVE) == len({field.option for field in FIELDS.values()}) == len(FIELDS)
    assert {"timeout", "max-running", "every-node", "except"} < set(CLEARABLE)
    assert not {"name", "tz", "schedule", "command"} & set(CLEARABLE)


def test_a_default_is_valid_and_reads_back(field: Field) -> None:
    if not field.is_clearable:
        return
    value = SPEC_DEFAULTS[field.name]
    assert field.kind.problem(value) is None
    if not field.kind.is_many and value is not None:
        assert field.kind.parse(field.kind.format(value)) == value
        assert field.kind.read(field.kind.write(value)) == value


def test_help_is_a_sentence(field: Field) -> None:
    assert field.help[0].isupper()
    assert not field.help.endswith(".")
    assert not field.details or field.details.endswith(".")


def test_the_option_table_of_the_documentation_is_up_to_date() -> None:
    """`python -m scripts.option_table` writes it."""
    page = option_table.PAGE.read_text()
    assert option_table.written(page) == page
    assert all(f"--{field.option}" in option_table.table() for field in OPTIONS)


def test_a_directive_s_time_without_an_offset_is_in_utc() -> None:
    assert FIELDS["not_before"].kind.read("2027-01-01T09:00") == datetime(2027, 1, 1, 9, tzinfo=UTC)


def test_a_count_keeps_all_its_digits_or_is_refused() -> None:
    assert FIELDS["max_running"].kind.parse("999999999") == 999_999_999
    with pytest.raises(UsageError, match="'1234567890' is not a whole number; give a number from 1 on"):
        FIELDS["max_running"].kind.parse("1234567890")
