"""MAILTO: read as cron reads it, and written back."""

from dataclasses import replace
from typing import Any

import pytest

from dcron.crontabfile import read, write
from dcron.crontabfile.mail import warnings
from dcron.model import Definition
from tests.unit.crontabfile.test_crontab_lines import crontab, messages, only

OUTPUT = ("output",)


def notify(text: str) -> list[tuple[Any, ...]]:
    """Return the channels of each task of a crontab."""
    return [task.notify for task in crontab(text).definitions]


def test_mailto_applies_to_the_lines_below_it() -> None:
    text = '@daily a\nMAILTO=ann@example.org\n@daily b\nMAILTO=""\n@daily c\nMAILTO=root\n@daily d\n'
    assert notify(text) == [(), ("mailto:ann@example.org",), (), ("mailto:root",)]
    assert [task.notify_on for task in crontab(text).definitions] == [(), OUTPUT, (), OUTPUT]


@pytest.mark.parametrize(
    "value", ["ann@example.org,bob", '"ann@example.org, bob"', "'ann@example.org bob,bob'"]
)
def test_several_addresses_are_channels_each(value: str) -> None:
    assert only(f"MAILTO={value}\n@daily x\n").notify == ("mailto:ann@example.org", "mailto:bob")


def test_the_variable_itself_stays() -> None:
    assert only("MAILTO=ann\n@daily x\n").env == {"MAILTO": "ann"}


@pytest.mark.parametrize("address", ["a;b", "-oQ/tmp", "$USER", "|sh", "`x`", "<a@b.org>", "a\\b"])
def test_an_address_that_cron_calls_unsafe_gets_no_mail(address: str) -> None:
    text = f"MAILTO={address},ann\n@daily x\n"
    assert only(text).notify == ("mailto:ann",)
    assert len(messages(text)) == 2
    assert only(f"MAILTO={address}\n@daily x\n").notify_on == ()


def test_more_addresses_than_a_task_may_have_are_left_out() -> None:
    value = ",".join(f"a{number}" for number in range(12))
    assert len(only(f"MAILTO={value}\n@daily x\n").notify) == 10
    assert warnings(value)[1] == 'MAILTO: "a10" gets no mail: more than 10 addresses'


def test_unset_and_directives_overrule_it() -> None:
    text = "MAILTO=ann\n#dcron: unset=MAILTO\n@daily a\n"
    assert notify(text) == [()]
    text = "MAILTO=ann\n#dcron: notify=ops\n@daily a\n#dcron: notify_on=failing\n@daily b\n@daily c\n"
    assert [(task.notify, task.notify_on) for task in crontab(text).definitions] == [
        (("ops",), ()),
        ((), ("failing",)),
        (("mailto:ann",), OUTPUT),
    ]


def test_without_mail_it_is_a_variable_only() -> None:
    found = read("MAILTO=ann\n@daily x\n", source="x", timezone="UTC", mail_output=False)
    (task,) = found.definitions
    assert (task.notify, task.notify_on, task.env) == ((), (), {"MAILTO": "ann"})
    assert not found.warnings


def written(task: Definition) -> str:
    text = write([task])
    assert read(text, source="x", timezone="Asia/Tokyo").definitions == (task,)
    return text


def test_an_export_has_the_mailto_of_the_import() -> None:
    task = only("MAILTO=ann,bob\n@daily x\n")
    text = written(task)
    assert "MAILTO=ann,bob\n" in text
    assert "notify" not in text


def test_an_export_says_where_a_task_differs_from_its_mailto() -> None:
    task = only("MAILTO=ann\n@daily x\n")
    assert 'notify=""' in written(replace(task, notify=(), notify_on=()))
    assert "notify=ops" in written(replace(task, notify=("ops",), notify_on=()))
    assert "notify_on=output,failing" in written(replace(task, notify_on=("output", "failing")))
    assert "notify_on=output" in written(replace(task, notify=()))
    assert "notify=mailto:ann notify_on=output" in written(replace(task, env={}))
    both = [task, replace(task, name="other", env={}), replace(task, name="third")]
    assert read(write(both), source="x", timezone="UTC").definitions == tuple(both)
