"""The starts of a whole crontab, merged into one list."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from dcron.cli import forecast, printing, shapes, words
from dcron.cli.tables import Column, print_table
from dcron.errors import UsageError
from dcron.model import Definition
from dcron.schedule import Advice, Occurrence, advise_all, parse, zone

BUSIEST = 5


class Start(NamedTuple):
    """A task's turn; the order is that of time, then of names."""

    at: datetime
    task: str
    occurrence: Occurrence


def starts(
    lines: Iterable[Definition], after: datetime, until: datetime | None, count: int
) -> Iterator[Start]:
    """The first `count` starts after `after`, computed as they are asked for."""
    return islice(heapq.merge(*(_starts_of(line, after, until) for line in lines)), count)


def _starts_of(line: Definition, after: datetime, until: datetime | None) -> Iterator[Start]:
    try:
        for occurrence in forecast.coming(line, after, until=until):
            yield Start(occurrence.at, line.name, occurrence)
    except UsageError as error:
        printing.complain(f"warning: {line.name} is left out: {error}")


def print_json(found: Iterable[Start], lines: Sequence[Definition], here: Any, now: datetime) -> None:
    """The shape of a preview; each occurrence names its task as well."""
    listed = list(found)
    warnings = [(advice.code, advice.message) for advice in _advice(lines, now)]
    shape = shapes.preview_shape(None, here.key, None, (start.occurrence for start in listed), warnings)
    for start, occurrence in zip(listed, shape["occurrences"], strict=True):
        occurrence["task"] = start.task
    printing.emit(shape)


def print_agenda(found: Iterable[Start], lines: Sequence[Definition], here: Any, now: datetime) -> None:
    """A table in one zone, the busiest minutes in it, and advice."""
    minutes = Counter[datetime]()
    columns = [
        Column(f"STARTS ({here.key})"),
        Column("IN", right=True),
        Column("TASK", least=10),
        Column("NOTE", least=8),
    ]
    if not print_table(columns, _rows(found, here, now, minutes)):
        printing.note("nothing runs in this window" if lines else "there are no tasks that are not paused")
    busy = [(minute, number) for minute, number in minutes.most_common(BUSIEST) if number > 1]
    if busy:
        told = ", ".join(f"{words.clock(minute, here, now)} ({number})" for minute, number in busy)
        printing.note(f"busiest minutes in this list: {told}")
    for advice in _advice(lines, now):
        printing.complain(f"warning: {advice.message} [{advice.code}]")


def _rows(
    found: Iterable[Start], here: Any, now: datetime, minutes: Counter[datetime]
) -> Iterator[list[str]]:
    for at, task, occurrence in found:
        minutes[at.replace(second=0, microsecond=0)] += 1
        remark = "; ".join(text for text in (occurrence.note, occurrence.reason) if text)
        yield [words.full(at.astimezone(here)), words.left(at, now), task, remark]


def _advice(lines: Iterable[Definition], now: datetime) -> list[Advice]:
    tasks = []
    for line in lines:
        try:
            tasks.append((line.name, parse(line.schedule, name=line.name), zone(line.timezone)))
        except UsageError:
            continue  # `_starts_of` has said so
    return advise_all(tasks, now)
