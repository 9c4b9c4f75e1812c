"""What is said above and below a log: whose it is, how the run stands, how much there is, what is wrong."""

from collections.abc import Sequence
from datetime import timedelta, tzinfo

from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.safetext import NAME_CELLS, cells, safe, shorten
from dcron.tui.health import Health
from dcron.tui.log.opened import VisibleLines
from dcron.tui.log.reader import Seen

LEAST_NAME = 8


def title(seen: Seen, follow: str, moment: float, width: int) -> str:
    """All that fits in `width` cells at the monotonic time `moment`; what matters least goes first."""
    run = seen.run
    name = safe(run.task, NAME_CELLS)
    node = safe(run.node or "", NAME_CELLS)
    standing = state(seen, moment)
    counts = f"out {humanize.plural(seen.out, 'line')}"
    errors = f"err {seen.err:,}"
    for parts in (
        (node, standing, counts, errors, follow),
        (standing, counts, errors, follow),
        (standing, errors, follow),
        (standing, follow),
        (follow or standing,),
    ):
        line = _line(name, run.id, parts)
        if cells(line) <= width:
            return line
    rest = cells(line) - cells(name)
    return shorten(_line(shorten(name, max(LEAST_NAME, width - rest)), run.id, parts), width)


def state(seen: Seen, moment: float) -> str:
    """`RUNNING 41s`, `FAILED exit 2 after 3.1s`, `WAITING due in 5m`."""
    run = seen.run
    now = seen.now + timedelta(seconds=max(0.0, moment - seen.taken_at))
    word = run.state.value.upper()
    duration = run.duration(now)
    match run.state:
        case RunState.WAITING:
            return f"{word} due {_due(run, humanize.left(run.due_at, now))}"
        case RunState.RUNNING:
            return f"{word} {humanize.span(duration or 0.0)}"
        case RunState.FAILED:
            word = f"{word} {humanize.result(run, now)}"
    return f"{word} after {humanize.took(duration)}" if duration is not None else word


def following(seen: Seen, *, follows: bool, new: int, key: str) -> str:
    """`[FOLLOW]`, or that it is off and how to turn it on; nothing where nothing more will come."""
    if seen.run.state.is_final and not new:
        return ""
    if follows:
        return "[FOLLOW]"
    return f"[FOLLOW off: {new:,} new - {key}]" if new else f"[FOLLOW off - {key}]"


def lost(health: Health, seen: Seen | None, zone: tzinfo) -> str:
    """What is wrong with the database, and how old that makes what is shown; nothing when all is well."""
    if not (health.is_old or (health.heard_at is None and health.asked_at)):
        return ""
    as_of = f"as of {seen.now.astimezone(zone):%H:%M:%S}" if seen else ""
    return "  ".join(filter(None, (health.summary(), as_of, safe(str(health.error or "")))))


def in_force(view: VisibleLines, seen: Seen | None, err_key: str, back_key: str) -> str:
    """The filter and the search, what they found, and the keys out; nothing where there is none."""
    if seen is None:
        return ""
    told = [f"stderr only ({err_key})"] if view.err_only else []
    if view.wanted:
        told.append(f"&{view.wanted.text}: {humanize.plural(seen.rows, 'line')}")
    if view.sought:
        told.append(f"/{view.sought.text}: {humanize.plural(len(seen.hits), 'line')}")
    if (view.wanted or view.sought) and not seen.done:
        told.append("searching ...")
    return "  ".join([*told, back_key] if view.wanted or view.sought else told)


def _due(run: Run, left: str) -> str:
    return left if left == "now" or left.startswith("late") else f"in {left}"


def _line(name: str, run_id: int, parts: Sequence[str]) -> str:
    return "  ".join(part for part in (f" {name} > run {run_id}", *parts) if part)
