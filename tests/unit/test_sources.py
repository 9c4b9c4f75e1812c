"""Match the lines of an imported file with existing tasks."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from dcron.model import Definition, Task
from dcron.services.changes.matching import Match, match


def line(name: str, command: str = "true", schedule: str = "@daily") -> Definition:
    return Definition(name=name, schedule=schedule, timezone="UTC", command=command)


def task(definition: Definition, number: int = 1) -> Task:
    """The task that this definition is."""
    return Task(
        **asdict(definition),
        id=number,
        version=1,
        planned_version=1,
        enabled=True,
        paused_reason=None,
        paused_by=None,
        paused_at=None,
        paused_until=None,
        once=False,
        error=None,
        changed_at=datetime(2027, 1, 1, tzinfo=UTC),
        changed_by=None,
    )


def matched(
    lines: Sequence[Definition],
    own: Sequence[Definition] = (),
    others: Sequence[Definition] = (),
    prefix: str = "",
) -> list[Match]:
    theirs = {each.name: task(each, 100 + number) for number, each in enumerate(others)}

    def names() -> Collection[str]:
        return [*theirs, *(each.name for each in own)]

    expected = {prefix + each.name for each in lines}
    clashing = {name: each for name, each in theirs.items() if name in expected}
    return match(lines, [task(each, number) for number, each in enumerate(own)], clashing, names, prefix)


def names(matches: Sequence[Match]) -> list[tuple[str, str | None]]:
    """The name in the crontab, and of the task that it is already."""
    return [(each.definition.name, each.task.name if each.task else None) for each in matches]


def test_a_new_task_keeps_its_name() -> None:
    assert names(matched([line("a")])) == [("a", None)]


def test_an_entry_is_the_task_of_its_name_from_the_same_source() -> None:
    assert names(matched([line("a", "new")], own=[line("a", "old")])) == [("a", "a")]


def test_a_name_of_another_source_gives_a_number() -> None:
    (found,) = matched([line("a", "mine")], others=[line("a"), line("a-2")])
    assert (found.definition.name, found.task, found.other and found.other.name) == ("a-3", None, "a")


def test_the_number_is_found_again() -> None:
    own, others = [line("a-3", "mine")], [line("a"), line("a-2")]
    assert names(matched([line("a", "changed")], own, others)) == [("a-3", "a-3")]


def test_numbers_do_not_take_the_names_of_other_entries() -> None:
    lines = [line("a", "one"), line("a-2", "two")]
    first = matched(lines, others=[line("a")])
    assert names(first) == [("a-3", None), ("a-2", None)]
    again = matched(lines, own=[each.definition for each in first], others=[line("a")])
    assert names(again) == [("a-3", "a-3"), ("a-2", "a-2")]


def test_what_another_source_says_in_the_same_words_is_one_task() -> None:
    (found,) = matched([line("a")], others=[line("a")])
    assert found.task is found.other
    assert found.definition.name == "a"


def test_a_task_that_was_renamed_is_found_by_what_it_says() -> None:
    assert matched([line("a", "x")], own=[line("nightly", "x")])[0].task is not None


def test_a_prefix_is_part_of_every_name() -> None:
    lines = [line("a"), line("b", schedule="@after a,other")]
    found = matched(lines, others=[line("a")], prefix="web2-")
    assert names(found) == [("web2-a", None), ("web2-b", None)]
    assert found[1].definition.schedule == "@after web2-a,other"


def test_an_entry_comes_after_its_own_file_s_task() -> None:
    lines = [line("a", "mine"), line("b", schedule="@after a")]
    found = matched(lines, others=[line("a"), line("b", schedule="@after a")])
    assert [(each.definition.name, each.definition.schedule) for each in found] == [
        ("a-2", "@daily"),
        ("b-2", "@after a-2"),
    ]


def test_many_clashes_are_quick() -> None:
    lines = [line(f"n{number}", "mine") for number in range(3000)]
    found = matched(lines, others=[line(f"n{number}") for number in range(3000)])
    assert {each.definition.name for each in found} == {f"n{number}-2" for number in range(3000)}
