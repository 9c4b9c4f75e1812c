"""The JSON that scripts read, made from what the services return. `documents` describes its shapes."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from dcron import policy, presentation, services
from dcron.cli.output.documents import Document, make
from dcron.fields import FIELDS
from dcron.model import DEFINITION_FIELDS, Freeze, Node, Run
from dcron.policy.starting.freezes import state_of
from dcron.presentation import alerts
from dcron.presentation.humanize import offset_of
from dcron.values.lists import Chunk


def task_shape(
    view: "services.tasks.rows.TaskRow", now: datetime, document: str = "task", **more: Any
) -> Document:
    """Return a task with its next and last run, and what `more` adds in another document."""
    task, held = view.task, view.held_by(now)
    holder = view.alive[-1] if view.alive else None
    fields = {FIELDS[name].key: FIELDS[name].kind.to_json(getattr(task, name)) for name in DEFINITION_FIELDS}
    return make(
        document,
        task,
        next_run_at=view.next_run_at,
        last_run=run_shape(view.last_run, now) if view.last_run else None,
        node_id=holder.owner if holder else None,
        revision=task.version,
        failed=view.failed,
        late=view.is_late(now),
        frozen=held is not None,
        frozen_until=held.until_at if held else None,
        dead=view.dead,
        drifted=policy.ownership.is_drifted(task),
        unserved=view.unserved,
        alerts=[make("alert", alert) for alert in view.alerts],
        **fields,
        **more,
    )


def alert_facts_shape(facts: "policy.alert_facts.AlertFacts", now: datetime) -> Document:
    """Return an alert with what is known of its cause."""
    known = presentation.blame.of(facts)
    return make(
        "alert-facts",
        facts,
        **make("alert", facts.alert),
        cause=alerts.cause(facts, now) or None,
        began=known and known.text,
        difference=known and known.difference,
        change_id=known and known.change_id,
    )


def run_shape(run: Run, now: datetime, document: str = "run", **more: Any) -> Document:
    """Return a run, and what `more` adds in another document."""
    wait = max((run.started_at - run.due_at).total_seconds(), 0) if run.started_at else None
    return make(document, run, wait=wait, duration=run.duration(now), dead=run.dead_at is not None, **more)


def node_shape(node: Node, now: datetime) -> Document:
    """Return a node."""
    return make("node", node, state=node.state(now), unheard_count=node.unheard)


def statistics_shape(
    by: str, span: "policy.statistics.Span", found: "policy.statistics.Statistics"
) -> Document:
    """Return the statistics of a task, node or queue."""
    return make(
        "statistics",
        found,
        by=by,
        **_span(span, found.now),
        trend=found.trend and round(found.trend, 3),
        previous=_span(span.before, found.before),
    )


def _span(span: "policy.statistics.Span", totals: "policy.statistics.Totals") -> Document:
    rate = totals.success_rate
    return make(
        "span",
        totals,
        from_=span.start,
        until=span.end,
        success_rate=None if rate is None else round(rate, 6),
        p50=totals.took.percentile(0.5),
        p95=totals.took.percentile(0.95),
        late_p50=totals.late.percentile(0.5),
        late_p95=totals.late.percentile(0.95),
        work=totals.work / 1000,
    )


def report_shape(report: "services.report.CrontabReport") -> Document:
    """Return a report on the whole crontab."""
    return make(
        "report",
        report,
        **make("totals", report.totals),
        previous=make("totals", report.before),
        failures=[make("failure", each, last_run=_last_run(each, report.span.end)) for each in report.failed],
        skipped_by_code=[make("skip-group", each, by_task=dict(each.tasks)) for each in report.skipped],
        slower=[statistics_shape("task", report.span, each) for each in report.slower],
        new_dead_letters=dict(report.dead_letters),
    )


def _last_run(task: "services.report.FailedTask", now: datetime) -> Document | None:
    return run_shape(task.last_run, now) if task.last_run else None


def emitted_shape(emitted: "services.runs.triggers.Emitted", now: datetime) -> Document:
    """Return the effect of an event; its event is None if one with the same key was sent before."""
    runs = [run_shape(run, now) for run in emitted.runs]
    return make("emitted", emitted, runs=runs, duplicate=emitted.event is None)


def backfill_shape(
    task: str, first: datetime, last: datetime, filled: "services.runs.triggers.Backfill", *, dry_run: bool
) -> Document:
    """Return the runs that a backfill of this span has created, or would create."""
    count, span = len(filled.occurrences), {"from": first, "until": last}
    return make("backfill", filled, task=task, dry_run=dry_run, run_count=count, **span)


def preview_shape(
    schedule: str | None,
    timezone: str,
    explanation: str | None,
    warnings: Iterable[tuple[str, str]],
    **more: Any,
) -> Document:
    """Return the preview of a schedule, or of all (None), without occurrences.

    A warning is a code and a message.
    """
    found = [make("finding", code=code, message=message) for code, message in warnings]
    return make(
        "preview",
        schedule=schedule,
        timezone=timezone,
        explanation=explanation,
        occurrences=[],
        warnings=found,
        **more,
    )


def occurrence_shape(start: "policy.forecast.start_times.TaskStart", **more: Any) -> Document:
    """Return an occurrence of a preview; one that is skipped does not start."""
    occurrence = start.occurrence
    return make(
        "occurrence",
        occurrence,
        local=occurrence.local.isoformat(),
        utc_offset=offset_of(occurrence.local),
        starts_at=None if occurrence.reason else start.at,
        **more,
    )


def chunk_shape(chunk: Chunk) -> Document:
    """Return a chunk of output. `offset` counts bytes of both streams; a gap means dropped bytes."""
    return make("output", chunk, offset=chunk.byte_offset, text=chunk.data.decode("utf-8", errors="replace"))


def freeze_shape(freeze: Freeze, now: datetime, **more: Any) -> Document:
    """Return a freeze."""
    state = state_of(freeze, now)
    return make("freeze", freeze, state=state, **more)


# Forecasts --------------------------------------------------------------------------------------------


def forecast_shape(outlook: "policy.forecast.summary.Outlook", timezone: str) -> Document:
    """Return a forecast."""
    return make(
        "forecast",
        outlook,
        timezone=timezone,
        unserved_tasks=_unserved(outlook.unserved),
        left_out=_left_out(outlook.left_out),
    )


def comparison_shape(found: "policy.forecast.comparison.ForecastComparison") -> Document:
    """Return how a change of the crontab changes its load."""
    return make(
        "comparison",
        found,
        moved=map(_moved, found.moved),
        unserved_tasks=_unserved(found.unserved),
    )


def _moved(each: "policy.forecast.comparison.MovedStarts") -> Document:
    first_before, first = (starts[0] if starts else None for starts in (each.before, each.after))
    counts = {"starts_before": len(each.before), "starts": len(each.after)}
    return make("moved", each, **counts, first_before=first_before, first=first)


def _unserved(found: Iterable[tuple[str, str]]) -> list[Document]:
    return [make("unserved", task=task, reason=reason) for task, reason in found]


def _left_out(left_out: "policy.forecast.summary.LeftOut") -> Document:
    return make("left-out", left_out, unreadable=_unserved(left_out.unreadable))


def quiet_shape(found: "policy.forecast.summary.QuietForecast", timezone: str) -> Document:
    """Return quiet times."""
    return make("quiet", found, timezone=timezone, left_out=_left_out(found.left_out))
