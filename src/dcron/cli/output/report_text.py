"""Format a report on the crontab as text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from dcron import policy, services
from dcron.presentation import alerts, humanize, statistics
from dcron.presentation.humanize import plural

MOST_SHOWN = 20
"""Lines of a section; further ones are counted. JSON has all."""
MOST_NAMES = 5
"""Tasks that a line names."""


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    lines: Sequence[str]


def plain(sections: Iterable[Section]) -> Iterator[str]:
    """Yield the lines of the report as text."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield section.title
        yield from (f"  {line}" for line in section.lines)


def sections(report: "services.report.CrontabReport", here: tzinfo) -> Iterator[Section]:
    """Yield the sections of the report; after the first, only those in which something happened."""
    times = _Times(here, report.span.end)
    span = f"{times.full(report.span.start)} to {times.full(report.span.end)}"
    yield Section(f"dcron report, {span}", list(_summary(report)))
    failing = [task for task in report.failed if task.still_fails]
    over = [task for task in report.failed if not task.still_fails]
    recovered = [task for task in over if not task.is_removed]
    removed = [task for task in over if task.is_removed]
    for title, lines in (
        (f"{plural(len(failing), 'task')} still failing", [_failed(task, times) for task in failing]),
        (
            f"{plural(len(recovered), 'task')} failed and recovered",
            [_failed(each, times) for each in recovered],
        ),
        (
            f"{plural(len(removed), 'task')} failed, now removed",
            [_failed(each, times) for each in removed],
        ),
        _skipped(report, times),
        (
            f"{plural(len(report.late), 'task')} started late",
            [
                f"{task.name}: up to {humanize.span(task.latest)} late, p95 {humanize.took(task.p95)} of"
                f" {plural(task.runs, 'start')}"
                for task in report.late
            ],
        ),
        (
            f"{plural(len(report.lost_nodes), 'node')} lost",
            [
                f"{node.id} at {times.short(node.died_at)}"
                + (f", with {plural(node.runs_lost, 'run')}" if node.runs_lost else "")
                for node in report.lost_nodes
            ],
        ),
        (
            f"{plural(len(report.slower), 'task')} slower than before",
            [f"{each.name}: {statistics.changes(each)}" for each in report.slower],
        ),
        (
            plural(sum(count for _, count in report.dead_letters), "new dead letter"),
            [_counts(report.dead_letters)],
        ),
        (
            f"{plural(sum(group.opened for group in report.alerts), 'alert')} opened",
            [_alerts(group) for group in report.alerts],
        ),
        _changes(report, times),
    ):
        if any(lines):
            yield Section(title, humanize.first_lines(lines, MOST_SHOWN))


@dataclass(frozen=True)
class _Times:
    """Times in the zone of the reader."""

    zone: tzinfo
    now: datetime

    def full(self, at: datetime) -> str:
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M %Z}"

    def short(self, at: datetime) -> str:
        return humanize.clock(at, self.zone, self.now)


def _summary(report: "services.report.CrontabReport") -> Iterator[str]:
    now, before = report.totals, report.before
    counts = [f"{now.succeeded:,} succeeded", f"{now.failed:,} failed", f"{now.lost:,} lost"]
    counts += [f"{now.cancelled:,} cancelled", f"{now.skipped:,} skipped"]
    yield f"{plural(now.runs, 'run')}: {', '.join(counts)}"
    rates = (statistics.rate(each.success_rate) for each in (now, before))
    now_rate, before_rate = rates
    if now_rate:
        yield f"{now_rate} ok" + (f", {before_rate} in as much time before" if before_rate else "")
    if report.is_incomplete:
        yield f"runs up to {report.pruned_until} have been pruned in part and are missing here"
    elif report.pruned_until:
        yield (
            f"runs up to {report.pruned_until} have been pruned: their figures come from the daily"
            " statistics, without their causes"
        )


def _failed(task: "services.report.FailedTask", times: _Times) -> str:
    removed = " (removed)" if task.is_removed else ""
    text = f"{task.name}{removed}: {plural(task.failures, 'failure')}"
    run = task.last_run
    if run is None or run.finished_at is None:
        return text
    node = f" on {run.node}" if run.node else ""
    result = humanize.result(run, times.now)
    return f"{text}, the last {times.short(run.finished_at)}{node}: {result} (run {run.id})"


def _skipped(report: "services.report.CrontabReport", times: _Times) -> tuple[str, list[str]]:
    total = sum(group.occurrences for group in report.skipped)
    return f"{plural(total, 'occurrence')} skipped", [_group(group, times) for group in report.skipped]


def _group(group: "services.report.SkippedGroup", times: _Times) -> str:
    code = group.code or "for causes that have been pruned"
    text = f"{group.occurrences:,} {code} in {plural(len(group.tasks), 'task')}"
    if group.first and group.until:
        span = f"{times.short(group.first)} to {times.short(group.until)}"
        text += f", {times.short(group.first) if group.first == group.until else span}"
    return f"{text}: {_counts(group.tasks)}"


def _alerts(group: "services.report.AlertGroup") -> str:
    text = f"{group.opened:,} {alerts.word(group.kind)}"
    if not group.open:
        return f"{text}, none is still open"
    return f"{text}, {len(group.open):,} still open: {humanize.first_few(group.open, MOST_NAMES)}"


def _changes(report: "services.report.CrontabReport", times: _Times) -> tuple[str, list[str]]:
    more = "more than " if report.more_changes else ""
    return f"{more}{plural(len(report.changes), 'change')}", [_change(each, times) for each in report.changes]


def _change(change: "policy.history.RecordedChange", times: _Times) -> str:
    fields = f" ({', '.join(change.fields)})" if change.fields else ""
    return f"{times.short(change.at)} {change.author}: {change.action} {change.task or ''}{fields}"


def _counts(counts: Sequence[tuple[str, int]]) -> str:
    """Return `backup 3, mail 2, …`."""
    return humanize.first_few([f"{name} {count:,}" for name, count in counts], MOST_NAMES)
