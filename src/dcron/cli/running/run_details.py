"""One run in full, for `view`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from dcron import services
from dcron.cli.output import console, json_output
from dcron.cli.running.context import own_zone
from dcron.errors import NotFound
from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.schedule.zones import zone

Fact = tuple[str, str | list[str] | None]


def read_run(
    crontab: "services.crontab.Crontab", run_id: int, *, as_json: bool
) -> dict[str, Any] | list[Fact]:
    """Return one run in full, also one that was pruned and archived: its document, or facts for people.

    Raises NotFound or ArchiveError.
    """
    run, size = _run_and_size(crontab, run_id)
    retry, now = crontab.retry_of(run), crontab.now()
    if as_json:
        retried_as, like = retry.id if retry else None, run.spec.get("like")
        more = {"retried_as": retried_as, "output_bytes": size, "like": like}
        return json_output.run_shape(run, now, "run-view", **more)
    return [*_facts(run, retry, size, now), on_hold(crontab, now, run.task_id, run.id)]


def on_hold(
    crontab: "services.crontab.Crontab", now: datetime, task_id: int | None, run_id: int | None = None
) -> Fact:
    """Return what keeps the runs of a task, or one of them, from being pruned."""
    return "on hold", [
        f"{each.reason}, by {each.created_by or 'unknown'}, {humanize.ago(each.created_at, now)}:"
        f" dcron unhold {each.task if each.run_id is None else each.run_id}"
        for each in services.retention.Retention(crontab).holds_on(task_id=task_id, run_id=run_id)
    ] or None


def _run_and_size(crontab: "services.crontab.Crontab", run_id: int) -> tuple[Run, int]:
    """Return the run, and how many bytes of output it has; if only the archive has it, say where."""
    try:
        return crontab.find_run(run_id), crontab.output_size(run_id)
    except NotFound:
        pruned = services.archives.Archives(crontab).find(run_id)
        if pruned is None:
            raise
    console.note(f"run {run_id} was pruned; it is in the archive: {pruned.url}")
    return pruned.run, sum(len(chunk.data) for chunk in pruned.output)


def _facts(run: Run, retry: Run | None, size: int, now: datetime) -> Iterator[Fact]:
    yield "run", str(run.id)
    yield "task", run.task
    yield "state", run.state.value
    result = humanize.result(run, now)
    yield "result", result if run.state.is_final and result != run.state else None
    yield "reason", run.reason if run.reason != result else None
    yield "unheard", _what_ends(run) if run.is_unheard else None
    yield "waits", humanize.WAITS_FOR[run.blocked] if run.blocked and run.state is RunState.WAITING else None
    yield "trigger", humanize.trigger(run)
    yield "trial", _tried(run) if run.is_trial else None
    yield "attempt", str(run.attempt) + (f", after run {run.retry_of}" if run.retry_of else "")
    yield "retried", f"as run {retry.id}, {humanize.result(retry, now)}" if retry else None
    yield "flow", None if run.flow is None else f"{run.flow}: dcron runs --flow {run.flow}"
    yield "event", None if run.event_id is None else str(run.event_id)
    yield from _times(run, now)
    yield "node", run.owner
    yield "only on", run.for_node
    yield "refused by", [f"{node}: {why}" for node, why in (run.refused_by or {}).items()] or None
    yield "cancelled by", run.cancel_requested_by
    yield "dead letter", f"dcron retry {run.id}, or dcron dead dismiss {run.id}" if run.dead_at else None
    yield "queue", run.queue
    yield from _command(run.spec)
    yield "payload", run.payload
    yield "output", f"{size:,} bytes: dcron logs {run.id}" if size else "none"


def _what_ends(run: Run) -> str:
    """Return how an unheard run ends."""
    over = " when it counts as lost," if run.lost_after else ""
    return (
        f"its command may still run; it ends when its node is back,{over} or by dcron cancel {run.id} --lost"
    )


def _tried(run: Run) -> str:
    like = run.spec.get("like")
    if like is not None:
        return f"repeats run {like}"
    return f"a change that is not saved: dcron set {run.task} --from-run {run.id}"


def _times(run: Run, now: datetime) -> Iterator[Fact]:
    here = zone(own_zone())
    times = {
        "for": run.scheduled_for,
        "due": run.due_at,
        "not after": run.expires_at if run.state is RunState.WAITING else None,
        "claimed": run.claimed_at,
        "started": run.started_at,
        "ended": run.finished_at,
        "unheard since": run.unheard_since if run.is_unheard else None,
        "lost after": run.lost_after if run.is_unheard else None,
    }
    for name, at in times.items():
        yield name, humanize.full(at.astimezone(here)) if at else None
    duration = run.duration(now)
    yield "took" if run.state.is_final else "runs for", None if duration is None else humanize.took(duration)


def _command(spec: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the command and the fields that the run has copied from its task, without defaults."""
    for name, value in spec.items():
        if name == "like":
            continue
        if name == "env":
            yield from (("env", f"{key}={text}") for key, text in value.items())
        else:
            yield name.replace("_", " "), value if isinstance(value, str) else repr(value)
