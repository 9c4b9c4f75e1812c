"""Compare two runs: how they went, what they ran, and what they printed."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import unified_diff

from textual.content import Content

from dcron.model import Run
from dcron.presentation import humanize
from dcron.safetext import safe, shorten
from dcron.services.dashboard import Dashboard
from dcron.tui.host import Host
from dcron.tui.modals import NoticeDialog

MOST_BYTES = 64 * 1024
"""Most bytes of each output that are compared."""
MOST_LINES = 2000
MOST_DIFFERENT = 400
"""Most lines of the difference that are shown."""
LABEL, VALUE = 10, 28


class ComparisonDialog(NoticeDialog):
    """A comparison, in the width of the screen."""


def compare(host: Host, runs: Sequence[Run]) -> None:
    """Show how two runs differ, the earlier one first."""
    if len(runs) != 2:
        host.report("mark two runs with Space to compare them")
        return
    first, second = sorted(run.id for run in runs)

    def read(board: Dashboard) -> list[str]:
        crontab = board.crontab
        both = crontab.find_run(first), crontab.find_run(second)
        outputs = _output(board, first), _output(board, second)
        return list(comparison(*both, *outputs, crontab.now()))

    def show(lines: list[str]) -> None:
        content = Content("\n").join(Content(safe(line)) for line in lines)
        host.push_screen(ComparisonDialog(f"runs {first} and {second}", lambda: content))

    host.fetch(read, show)


def comparison(first: Run, second: Run, printed: bytes, also: bytes, now: datetime) -> Iterator[str]:
    """Yield the lines of the comparison."""
    yield _line("", f"run {first.id}", f"run {second.id}")
    for label, show in _FACTS:
        yield _line(label, show(first, now), show(second, now))
    yield ""
    changed = [key for key in {**first.spec, **second.spec} if first.spec.get(key) != second.spec.get(key)]
    yield "what ran is the same" if not changed else "what ran:"
    for key in sorted(changed):
        yield from (f"  - {key}: {_value(first, key)}", f"  + {key}: {_value(second, key)}")
    yield ""
    yield from _difference(printed, also)


def _difference(printed: bytes, also: bytes) -> Iterator[str]:
    before, after = (data.decode(errors="replace").splitlines()[:MOST_LINES] for data in (printed, also))
    if before == after:
        yield "they printed the same" if before else "neither has printed anything"
        return
    cut = " (the beginning of each)" if MOST_BYTES in (len(printed), len(also)) else ""
    yield f"what they printed{cut}:"
    found = list(unified_diff(before, after, lineterm="", n=2))[2:]
    yield from found[:MOST_DIFFERENT]
    if len(found) > MOST_DIFFERENT:
        yield f"and {len(found) - MOST_DIFFERENT:,} more lines"


def _output(board: Dashboard, run_id: int) -> bytes:
    chunks = board.crontab.output(run_id, 0)
    return b"".join(chunk.data for chunk in chunks)[:MOST_BYTES]


def _line(label: str, first: str, second: str) -> str:
    mark = "" if first == second or not label else "  *"
    return f"{label:<{LABEL}}{shorten(safe(first), VALUE):<{VALUE}} {shorten(safe(second), VALUE)}{mark}"


def _value(run: Run, key: str) -> str:
    return json.dumps(run.spec.get(key), ensure_ascii=False)


def _took(run: Run, now: datetime) -> str:
    seconds = run.duration(now)
    return "" if seconds is None else humanize.took(seconds)


_FACTS: Sequence[tuple[str, Callable[[Run, datetime], str]]] = (
    ("task", lambda run, _: run.task),
    ("result", humanize.result),
    ("took", _took),
    ("started", lambda run, now: humanize.ago(run.started_at, now) if run.started_at else ""),
    ("node", lambda run, _: run.node or ""),
    ("trigger", lambda run, _: run.trigger.value),
    ("attempt", lambda run, _: str(run.attempt)),
    ("reason", lambda run, _: run.reason or ""),
)
