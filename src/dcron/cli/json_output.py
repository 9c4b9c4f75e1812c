"""The JSON that scripts read. Keys are added, never renamed or removed (docs/cli.md)."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dcron.fields import FIELDS
from dcron.json_values import instant, numbers, seconds
from dcron.model import DEFINITION_FIELDS, Alert, Event, Freeze, Node, Queue, Run
from dcron.presentation import alerts
from dcron.presentation.alerts import AlertFacts
from dcron.presentation.humanize import offset_of

if TYPE_CHECKING:  # these load SQLAlchemy or croniter; `preview` needs no database
    from dcron.policy.forecast import (
        CrowdedMinute,
        ForecastHour,
        ForecastSkips,
        LeftOut,
        Outlook,
        QuietForecast,
        QuietTime,
    )
    from dcron.policy.forecast_comparison import ForecastComparison, MovedStarts
    from dcron.policy.load import PlayedRun
    from dcron.policy.relief import Relief
    from dcron.policy.start_times import TaskStart
    from dcron.policy.statistics import Span, Statistics, Totals
    from dcron.services.channels import ChannelRow
    from dcron.services.report import CrontabReport
    from dcron.services.task_rows import TaskRow
    from dcron.services.triggers import Backfill, Emitted
    from dcron.store.changes import RecordedChange
    from dcron.store.output import Chunk


_FIRST = ("name", "schedule", "timezone", "command", "argv")
"""The keys with which a task begins."""


def task_shape(view: "TaskRow", now: datetime) -> dict[str, Any]:
    """Return a task with its next and last run."""
    from dcron.policy.ownership import is_drifted

    task, held = view.task, view.held_by(now)
    holder = view.alive[-1] if view.alive else None
    fields = {FIELDS[name].key: FIELDS[name].kind.to_json(getattr(task, name)) for name in DEFINITION_FIELDS}
    return {
        **{key: fields.pop(key) for key in _FIRST},
        "enabled": task.enabled,
        "paused_reason": task.paused_reason,
        "paused_by": task.paused_by,
        "paused_until": instant(task.paused_until),
        "next_run_at": instant(view.next_run_at),
        "last_run": run_shape(view.last_run, now) if view.last_run else None,
        "owner": holder.owner if holder else None,
        "version": task.version,
        "once": task.once,
        "error": task.error,
        "failed": view.failed,
        "late": view.is_late(now),
        "frozen": held is not None,
        "frozen_until": instant(held.until_at) if held else None,
        "dead": view.dead,
        "source": task.source,
        "drifted": is_drifted(task),
        "unserved": view.unserved,
        "alerts": [alert_shape(alert) for alert in view.alerts],
        **fields,
    }


def change_shape(change: "RecordedChange") -> dict[str, Any]:
    """Return an entry of the audit log."""
    return {
        "id": change.id,
        "at": instant(change.at),
        "actor": change.actor,
        "login": change.login,
        "via": change.via,
        "note": change.note,
        "batch": change.batch,
        "kind": change.kind,
        "action": change.action,
        "name": change.subject,
        "task_id": change.task_id,
        "version": change.version,
        "undoes": change.undoes,
        "fields": change.fields,
        "before": change.before,
        "after": change.after,
    }


def alert_shape(alert: Alert) -> dict[str, Any]:
    """Return an alert."""
    return {
        "id": alert.id,
        "kind": alert.kind,
        "subject": alert.subject,
        "task": alert.task,
        "opened_at": instant(alert.opened_at),
        "closed_at": instant(alert.closed_at),
        "times": alert.times,
        "last_at": instant(alert.last_at),
        "run": alert.run_id,
        "last_run": alert.last_run_id,
        "notified_at": instant(alert.notified_at),
        "acknowledged_by": alert.acknowledged_by,
        "acknowledged_at": instant(alert.acknowledged_at),
        "acknowledged_note": alert.acknowledged_note,
        "silent_until": instant(alert.silent_until),
    }


def alert_facts_shape(facts: AlertFacts, now: datetime) -> dict[str, Any]:
    """Return an alert with what is known of its cause."""
    return {
        **alert_shape(facts.alert),
        "cause": alerts.cause(facts, now) or None,
        "node": facts.run.node if facts.run else None,
        "exit_code": facts.run.exit_code if facts.run else None,
        "last_success_at": instant(facts.last_success.finished_at) if facts.last_success else None,
        "next_run_at": instant(facts.next_run_at),
        "began": facts.blame.text if facts.blame else None,
        "difference": list(facts.blame.difference) if facts.blame else [],
        "change": facts.blame.change_id if facts.blame else None,
    }


def run_shape(run: Run, now: datetime) -> dict[str, Any]:
    """Return a run."""
    return {
        "id": run.id,
        "task": run.task,
        "state": run.state.value,
        "reason": run.reason,
        "trigger": run.trigger.value,
        "attempt": run.attempt,
        "scheduled_for": instant(run.scheduled_for),
        "due_at": instant(run.due_at),
        "claimed_at": instant(run.claimed_at),
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "owner": run.owner,
        "node": run.node,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "duration": seconds(run.duration(now)),
        "retry_of": run.retry_of,
        "dead": run.dead_at is not None,
        "queue": run.queue,
        "blocked": run.blocked.value if run.blocked else None,
        "expires_at": instant(run.expires_at),
        "flow": run.flow,
        "event": run.event_id,
        "refused_by": dict(run.refused_by) if run.refused_by else {},
        "trial": run.is_trial,
    }


def node_shape(node: Node, now: datetime) -> dict[str, Any]:
    """Return a node."""
    return {
        "id": node.id,
        "name": node.name,
        "host": node.host,
        "pid": node.pid,
        "state": node.state(now).value,
        "tags": list(node.tags),
        "queues": list(node.queues),
        "capacity": numbers(node.capacity),
        "account": node.account,
        "any_account": node.any_account,
        "slots": node.slots,
        "running": node.running,
        "version": node.version,
        "tzdata": node.tzdata,
        "started_at": instant(node.started_at),
        "alive_until": instant(node.alive_until),
        "clock_offset": seconds(node.clock_offset),
    }


def queue_shape(queue: Queue) -> dict[str, Any]:
    """Return a queue; `max_running` is None without a limit."""
    return {"name": queue.name, "max_running": queue.max_running, "running": queue.alive}


def channel_shape(row: "ChannelRow", kind: str | None) -> dict[str, Any]:
    """Return a channel; `kind` is known for those of this machine."""
    return {
        "name": row.name,
        "kind": kind,
        "nodes": list(row.nodes),
        "waiting": row.figures.waiting,
        "sent_at": instant(row.figures.sent_at),
        "error": row.figures.error,
    }


def statistics_shape(by: str, span: "Span", found: "Statistics") -> dict[str, Any]:
    """Return the statistics of a task, node, queue or hour."""
    before = _totals_shape(span.before, found.before)
    own = {"by": by, "name": found.name, "removed": found.is_removed}
    return {
        **own,
        **_totals_shape(span, found.now),
        "trend": found.trend and round(found.trend, 3),
        "before": before,
    }


def _totals_shape(span: "Span", totals: "Totals") -> dict[str, Any]:
    rate = totals.success_rate
    return {
        "from": instant(span.start),
        "until": instant(span.end),
        "runs": totals.runs,
        "succeeded": totals.succeeded,
        "failed": totals.failed,
        "lost": totals.lost,
        "cancelled": totals.cancelled,
        "skipped": totals.skipped,
        "success_rate": None if rate is None else round(rate, 6),
        "p50": seconds(totals.took.percentile(0.5)),
        "p95": seconds(totals.took.percentile(0.95)),
        "longest": seconds(totals.longest),
        "late_p50": seconds(totals.late.percentile(0.5)),
        "late_p95": seconds(totals.late.percentile(0.95)),
        "work": seconds(totals.work / 1000),
    }


def report_shape(report: "CrontabReport") -> dict[str, Any]:
    """Return a report on the whole crontab."""
    return {
        "from": instant(report.span.start),
        "until": instant(report.span.end),
        **_counts_shape(report.totals),
        "before": _counts_shape(report.before),
        "failures": [
            {
                "task": task.name,
                "failures": task.failures,
                "still_fails": task.still_fails,
                "removed": task.is_removed,
                "last_run": run_shape(task.last_run, report.span.end) if task.last_run else None,
            }
            for task in report.failed
        ],
        "skipped_by_code": [
            {
                "code": group.code,
                "occurrences": group.occurrences,
                "tasks": dict(group.tasks),
                "first": instant(group.first),
                "last": instant(group.until),
            }
            for group in report.skipped
        ],
        "late": [
            {
                "task": task.name,
                "runs": task.runs,
                "late_p95": seconds(task.p95),
                "latest": seconds(task.latest),
            }
            for task in report.late
        ],
        "nodes_lost": [
            {"node": lost.node.id, "died_at": instant(lost.node.died_at), "runs_lost": lost.lost}
            for lost in report.lost_nodes
        ],
        "slower": [statistics_shape("task", report.span, each) for each in report.slower],
        "new_dead_letters": dict(report.dead_letters),
        "alerts": [
            {"kind": group.kind, "opened": group.opened, "still_open": list(group.open)}
            for group in report.alerts
        ],
        "changes": [
            {
                "at": instant(change.at),
                "by": change.author,
                "action": change.action,
                "task": change.task,
                "fields": list(change.fields),
            }
            for change in report.changes
        ],
        "more_changes": report.more_changes,
        "pruned_until": report.pruned_until and report.pruned_until.isoformat(),
        "incomplete": report.is_incomplete,
    }


def _counts_shape(totals: "Totals") -> dict[str, int]:
    names = ("runs", "succeeded", "failed", "lost", "cancelled", "skipped")
    return {name: getattr(totals, name) for name in names}


def event_shape(event: Event) -> dict[str, Any]:
    """Return an event, without its payload."""
    return {
        "id": event.id,
        "name": event.name,
        "key": event.key,
        "created_at": instant(event.created_at),
        "created_by": event.created_by,
    }


def emitted_shape(emitted: "Emitted", now: datetime) -> dict[str, Any]:
    """Return the effect of an event; its event is None if one with the same key was sent before."""
    return {
        "event": event_shape(emitted.event) if emitted.event else None,
        "runs": [run_shape(run, now) for run in emitted.runs],
        "duplicate": emitted.event is None,
    }


def backfill_shape(
    task: str, first: datetime, last: datetime, filled: "Backfill", *, dry_run: bool
) -> dict[str, Any]:
    """Return the runs that a backfill of this span has created, or would create."""
    return {
        "task": task,
        "from": instant(first),
        "to": instant(last),
        "dry_run": dry_run,
        "runs": len(filled.occurrences),
        "there_already": filled.already_done,
        "occurrences": [instant(occurrence) for occurrence in filled.occurrences],
    }


def preview_shape(
    schedule: str | None, timezone: str, explanation: str | None, warnings: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Return the preview of a schedule, or of all (None), without occurrences.

    A warning is a code and a message.
    """
    return {
        "schedule": schedule,
        "timezone": timezone,
        "explanation": explanation,
        "occurrences": [],
        "warnings": [{"code": code, "message": message} for code, message in warnings],
    }


def occurrence_shape(start: "TaskStart") -> dict[str, Any]:
    """Return an occurrence of a preview; one that is skipped does not start."""
    occurrence = start.occurrence
    return {
        "at": instant(occurrence.at),
        "local": occurrence.local.isoformat(),
        "offset": offset_of(occurrence.local),
        "note": occurrence.note,
        "reason": occurrence.reason,
        "starts_at": None if occurrence.reason else instant(start.at),
    }


def chunk_shape(chunk: "Chunk") -> dict[str, Any]:
    """Return a chunk of output. `offset` counts bytes of both streams; a gap means dropped bytes."""
    return {
        "run": chunk.run_id,
        "offset": chunk.byte_offset,
        "stream": chunk.stream,
        "at": instant(chunk.at),
        "text": chunk.data.decode("utf-8", errors="replace"),
    }


def freeze_shape(freeze: Freeze, now: datetime) -> dict[str, Any]:
    """Return a freeze."""
    from dcron.policy.freezes import state_of

    return {
        "id": freeze.id,
        "state": state_of(freeze, now),
        "from_at": instant(freeze.from_at),
        "until_at": instant(freeze.until_at),
        "reason": freeze.reason,
        "created_at": instant(freeze.created_at),
        "created_by": freeze.created_by,
        "thawed_at": instant(freeze.thawed_at),
        "thawed_by": freeze.thawed_by,
    }


# Forecasts --------------------------------------------------------------------------------------------


def forecast_shape(outlook: "Outlook", timezone: str) -> dict[str, Any]:
    """Return a forecast."""
    return {
        "from": instant(outlook.begin),
        "until": instant(outlook.until),
        "timezone": timezone,
        "slots": outlook.slots,
        "agents": outlook.agents,
        "starts": outlook.starts,
        "worst": _played_shape(outlook.worst),
        "hours": [_hour_shape(each) for each in outlook.hours],
        "crowded_minutes": [_crowded_shape(each) for each in outlook.crowded],
        "skipped": [_skips_shape(each) for each in outlook.skips],
        "unserved": [{"task": task, "reason": reason} for task, reason in outlook.unserved],
        "unknown_durations": list(outlook.unknown),
        "assumed_duration": outlook.assumed,
        "reliefs": [_relief_shape(each) for each in outlook.reliefs],
        **_left_out_shape(outlook.left_out),
    }


def comparison_shape(found: "ForecastComparison") -> dict[str, Any]:
    """Return how a change of the crontab changes its load."""
    return {
        "from": instant(found.after.begin),
        "until": instant(found.after.until),
        "starts_before": found.before.starts,
        "starts": found.after.starts,
        "worst_before": _played_shape(found.before.worst),
        "worst": _played_shape(found.after.worst),
        "moved": [_moved_shape(each) for each in found.moved],
        "overlaps": [_skips_shape(each) for each in found.overlaps],
        "crowded_minutes": [_crowded_shape(each) for each in found.crowded],
        "unserved": [{"task": task, "reason": reason} for task, reason in found.unserved],
    }


def _moved_shape(each: "MovedStarts") -> dict[str, Any]:
    first_before, first = (starts[0] if starts else None for starts in (each.before, each.after))
    return {
        "task": each.task,
        "starts_before": len(each.before),
        "starts": len(each.after),
        "first_before": instant(first_before),
        "first": instant(first),
    }


def _skips_shape(each: "ForecastSkips") -> dict[str, Any]:
    return {
        "task": each.task,
        "code": each.code.value,
        "count": each.count,
        "occurrences": each.occurrences,
        "every": seconds(each.every),
        "p95": seconds(each.p95),
    }


def _hour_shape(hour: "ForecastHour") -> dict[str, Any]:
    return {
        "from": instant(hour.begin),
        "until": instant(hour.end),
        "starts": hour.starts,
        "busiest_minute": instant(hour.busiest),
        "busiest_starts": hour.busiest_starts,
        "slots_peak": hour.peak,
        "wait_p95": seconds(hour.wait_p95),
        "worst": _played_shape(hour.worst),
        "late_tasks": list(hour.late),
    }


def _played_shape(run: "PlayedRun | None") -> dict[str, Any] | None:
    if run is None:
        return None
    return {"task": run.task, "due_at": instant(run.due_at), "wait": seconds(run.wait)}


def _crowded_shape(each: "CrowdedMinute") -> dict[str, Any]:
    return {"at": instant(each.at), "starts": each.starts, "longest_wait": seconds(each.worst)}


def _relief_shape(each: "Relief") -> dict[str, Any]:
    return {
        "kind": each.kind,
        "value": each.value,
        "tasks": list(each.tasks),
        "label": each.label,
        "minute": instant(each.minute),
        "longest_wait_before": seconds(each.before),
        "longest_wait_after": seconds(each.after),
    }


def _left_out_shape(left_out: "LeftOut") -> dict[str, Any]:
    return {
        "left_out": {
            "paused": left_out.paused,
            "frozen": left_out.frozen,
            "unforeseen": list(left_out.unforeseen),
            "unreadable": [{"task": task, "reason": reason} for task, reason in left_out.unreadable],
        }
    }


def quiet_shape(found: "QuietForecast", timezone: str) -> dict[str, Any]:
    """Return quiet times."""
    return {
        "from": instant(found.begin),
        "until": instant(found.until),
        "timezone": timezone,
        "times": [_quiet_time_shape(each) for each in found.times],
        "longest": _quiet_time_shape(found.longest),
        **_left_out_shape(found.left_out),
    }


def _quiet_time_shape(each: "QuietTime") -> dict[str, Any]:
    running = [
        {"task": run.task, "started_at": instant(run.started_at), "ends_by": instant(run.ends_by)}
        for run in each.running
    ]
    return {
        "from": instant(each.begin),
        "until": instant(each.end),
        "seconds": seconds(each.seconds),
        "running": running,
    }
