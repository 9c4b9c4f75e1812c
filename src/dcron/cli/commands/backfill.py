"""`backfill`: run occurrences of the past."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, WholeName, flag, option
from dcron.cli.asking.shared_options import keep_yes
from dcron.cli.asking.warnings import print_idle_agents
from dcron.cli.asking.which import agreed
from dcron.cli.output import console, json_output
from dcron.cli.output.tables import print_facts
from dcron.cli.output.times import past_time
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.model import Task
from dcron.presentation import humanize
from dcron.schedule.zones import zone


def command(
    name: WholeName,
    first: Annotated[
        str | None, option("--from", "TIME", "First time: 2027-01-01, '2027-01-01 09:00', 2d (ago).")
    ] = None,
    last: Annotated[
        str, option("--until", "TIME", "Last time, included; a date alone is its midnight.")
    ] = "now",
    since: Annotated[str | None, option("--since", "TIME", "From this time until now.")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be done.")] = False,
    force: Annotated[
        bool,
        flag(
            "-f",
            "--force",
            "Also where runs, perhaps successful, have been pruned.",
            callback=keep_yes,
        ),
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Run a task for past occurrences that never succeeded.

    \b
    dcron backfill report --from 3d --until yesterday --dry-run
    dcron backfill report --since 2d

    The runs start within the task's limits, after runs that are due now. Each has its occurrence in
    $DCRON_SCHEDULED_FOR. Times are in the task's zone.
    """
    start = first or since
    if start is None or (first and since):
        raise UsageError("give --since TIME, or --from TIME and --until TIME")
    with opened_crontab(db) as crontab:
        task = agreed(crontab.get, "backfill", name, asks=True)
        here, now = zone(task.timezone), crontab.now()
        begin, end = past_time(start, here, now), past_time(last, here, now)
        triggers = services.runs.triggers.Triggers(crontab)
        filled = triggers.backfill(task, begin, end, dry_run=True, force=force)
        asks = len(filled.occurrences) > 1 or name != task.name
        if dry_run:
            outlook = triggers.outlook(task, len(filled.occurrences))
        elif filled.occurrences:
            if not console.consent.is_given(asks=asks):
                outlook = triggers.outlook(task, len(filled.occurrences))
                console.agree(_question(task, filled, outlook), count=len(filled.occurrences), asks=asks)
            filled = triggers.backfill(task, begin, end, force=force)
        if as_json:
            console.emit(json_output.backfill_shape(task.name, begin, end, filled, dry_run=dry_run))
        else:
            print_facts(_facts(task, filled, outlook if dry_run else None))
        if filled.occurrences and not dry_run:
            if not task.enabled:
                console.note(f"{task.name} is paused: the runs wait until it is resumed")
            print_idle_agents(crontab)


def _question(
    task: Task, filled: "services.runs.triggers.Backfill", outlook: "services.runs.triggers.Outlook"
) -> str:
    """Return what is to be done: how many runs, of which time, and what else is to be known."""
    found = filled.occurrences
    number = f"make {humanize.plural(len(found), 'run')} of {task.name}"
    begin, end = _local(found[0], task), _local(found[-1], task)
    span = f", for {begin}" if len(found) == 1 else f", for {begin} to {end}"
    known = [text for _, text in _expected(task, filled, outlook)]
    return "; ".join([number + span, *known])


def _expected(
    task: Task, filled: "services.runs.triggers.Backfill", outlook: "services.runs.triggers.Outlook"
) -> Iterator[tuple[str, str]]:
    """Yield what a person should know before: how long it takes, and what is older than the task."""
    seconds = outlook.seconds(len(filled.occurrences))
    if not outlook.at_once:
        yield "takes", "no running agent can take them now"
    elif seconds is None or outlook.p95 is None:
        yield (
            "takes",
            f"{outlook.at_once:,} at once; how long is unknown: no run has succeeded yet",
        )
    else:
        p95 = humanize.took(outlook.p95)
        yield "takes", f"{outlook.at_once:,} at once take about {humanize.rough_span(seconds)} (p95 {p95})"
    created = outlook.created_at
    if before := sum(1 for each in filled.occurrences if created and each < created):
        assert created
        verb = "is" if before == 1 else "are"
        yield "older", f"{before:,} {verb} from before the task existed ({_local(created, task)})"
    if not task.enabled:
        yield "paused", f"{task.name} is paused: they wait until it is resumed"


def _facts(
    task: Task, filled: "services.runs.triggers.Backfill", outlook: "services.runs.triggers.Outlook | None"
) -> Iterator[tuple[str, str | None]]:
    count = len(filled.occurrences)
    yield "would make" if outlook else "made", f"{humanize.plural(count, 'run')} of {task.name}"
    if count:
        yield "first", _local(filled.occurrences[0], task)
        yield "last", _local(filled.occurrences[-1], task)
    if filled.already_done:
        yield "left alone", f"{filled.already_done:,} that have succeeded, wait, or are running"
    if outlook and count:
        yield from _expected(task, filled, outlook)


def _local(at: datetime, task: Task) -> str:
    return humanize.full(at.astimezone(zone(task.timezone)))
