"""An error about a field of a task names the field; no caller has to read its text."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dcron.errors import UsageError
from dcron.fields import FIELDS
from dcron.model import Definition
from dcron.policy.validation import require_valid

NOW = datetime(2027, 6, 1, tzinfo=UTC)
TASK = Definition(name="backup", schedule="30 2 * * *", timezone="UTC", command="true")
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": "a b"}),
    ("name", {"name": "--force"}),
    ("schedule", {"schedule": "* * *"}),
    ("schedule", {"schedule": "0 0 31 2 *"}),
    ("schedule", {"schedule": "@after backup"}),
    ("timezone", {"timezone": "Mars/Phobos"}),
    ("command", {"command": " "}),
    ("command", {"argv": ("", "x")}),
    ("command", {"command": "x" * 3_000_000}),
    ("tries", {"tries": 0}),
    ("labels", {"labels": {"Team": "x"}}),
    ("not_after", {"not_before": NOW, "not_after": NOW.replace(year=2026)}),
    ("on_lost", {"on_lost": "retry"}),
    ("jitter", {"schedule": "@on deployed", "jitter": 60.0}),
    ("catch_up", {"schedule": "@on deployed", "catch_up": "all"}),
    ("catch_up_window", {"catch_up": "skip", "catch_up_window": 60.0}),
    ("backoff", {"backoff": 7200.0, "backoff_max": 60.0}),
]


@pytest.mark.parametrize(("field", "values"), WRONG)
def test_an_error_names_its_field(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        require_valid(replace(TASK, **values), NOW)
    assert caught.value.field == field
    assert field in FIELDS


def test_other_errors_name_none() -> None:
    assert UsageError("write it otherwise").field is None
