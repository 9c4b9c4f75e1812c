"""The options of `diff` and `apply`, and the output of a plan."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron import policy, presentation, services
from dcron.cli.output import console
from dcron.cli.output.documents import Document, make
from dcron.cli.output.json_output import comparison_shape
from dcron.cli.output.tables import print_facts
from dcron.cli.output.task_differences import show
from dcron.cli.running.context import new_task_zone, own_zone
from dcron.errors import CrontabFileError, UsageError

if TYPE_CHECKING:
    from dcron.sources import SourceText

AHEAD = timedelta(hours=24)
SHOWN = 20
"""Tasks of one kind that are printed; further ones are counted."""
MISTAKES_SHOWN = 50

Files = Annotated[
    list[str],
    typer.Option(
        "-F",
        "--file",
        metavar="FILE|DIR|-",
        help="File with tasks, the directory of such files, or - for stdin; repeatable.",
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Option(
        metavar="SOURCE",
        help="Name of the source that owns the tasks, such as shop/cron.",
        show_default=False,
    ),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Remove the source's tasks that the files do not have any more.")
]
Adopt = Annotated[bool, typer.Option("--adopt", help="Take over tasks that belong to no source.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Discard changes that were made by hand.")]
TakeFrom = Annotated[
    str | None, typer.Option("--take-from", metavar="SOURCE", help="Take over tasks of this source.")
]

WithForecast = Annotated[
    bool, typer.Option("--forecast", help="Also say what the changes do to the next 24 hours.")
]


def edits_of(plan: "services.changes.source_plan.Plan") -> "list[services.forecast.Edit]":
    """Return each task that the plan writes, before and after."""
    return [(each.before, each.after) for each in plan.writes]


def compared(
    crontab: "services.crontab.Crontab", plan: "services.changes.source_plan.Plan", here: Any
) -> "policy.forecast.comparison.ForecastComparison":
    """Return what the changes of the plan do to the load of the next 24 hours."""
    return services.forecast.Forecast(crontab).compare(edits_of(plan), crontab.now() + AHEAD, here=here)


def read_files(crontab: "services.crontab.Crontab", files: Sequence[str], format: Any) -> "SourceText":
    """Return the contents of the files. Raises CrontabFileError with all mistakes."""
    return _read_in(new_task_zone(crontab).name, files, format)


def require_readable(files: Sequence[str], format: Any) -> None:
    """Raise CrontabFileError where the files have mistakes, before a crontab is created for them.

    Stdin can be read only once: it is not looked at.
    """
    if "-" not in files:
        _read_in(own_zone(), files, format)


def _read_in(timezone: str, files: Sequence[str], format: Any) -> "SourceText":
    from dcron import sources

    return sources.read([Path(name) for name in files], timezone=timezone, format=format)


@contextmanager
def places_printed() -> Iterator[None]:
    """Print mistakes in the files with their places, for editors to jump to, before the verb ends with 2."""
    try:
        yield
    except CrontabFileError as error:
        mistakes = str(error).split("\n")
        console.note("\n".join(mistakes[:MISTAKES_SHOWN]))
        if len(mistakes) > MISTAKES_SHOWN:
            console.note(f"and {len(mistakes) - MISTAKES_SHOWN:,} more")
        raise UsageError("nothing was changed") from None


def show_plan(plan: "services.changes.source_plan.Plan", now: datetime, *, reasons: bool) -> None:
    """Print what `apply` cannot apply, with `reasons` why, and then what it changes, as `edit` does.

    If `apply` refuses, which gives no reasons here, the changes are those that it would make.
    """
    if plan.obstacle:
        console.data(f"refused  {plan.obstacle if reasons else plan.source}")
    for planned in _shown(plan, "conflicts"):
        _print_conflict(planned, reason=reasons)
    for planned in _shown(plan, "refused"):
        console.data(f"refused  {planned.problem if reasons else planned.name}")
    for planned in _shown(plan, "adopted"):
        before = planned.before.source if planned.before else None
        console.data(f"adopted  {planned.name}, which belongs to {before or 'no source'}")
    changes = [each.change for each in plan.writes if each.change.redefines]
    show(changes, now, would=not (reasons or plan.is_possible))
    for planned in _shown(plan, "extra"):
        console.data(f"extra    {planned.name} is not in the files; --prune removes it")


def _shown(
    plan: "services.changes.source_plan.Plan", kind: str
) -> "Iterator[services.changes.source_plan.PlannedTask]":
    """Yield the first SHOWN tasks of this kind; then print how many more there are."""
    found = plan.kinds[kind]
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        console.data(f"         … and {len(found) - SHOWN:,} more")


def summary(plan: "services.changes.source_plan.Plan") -> str:
    """Return how many tasks there are of each kind."""
    words = {"conflicts": "in conflict"}
    counts = {kind: len(found) for kind, found in plan.kinds.items()}
    shown = [
        f"{count:,} {words.get(kind, kind)}" for kind, count in counts.items() if count or kind == "unchanged"
    ]
    return f"{plan.source}: {', '.join(shown)}"


def print_warnings(plan: "services.changes.source_plan.Plan", content: "SourceText") -> None:
    """Print the warnings about what applying changes."""
    for place, message in _warnings(plan, content):
        console.note(f"{place}: warning: {message}")


def plan_shape(
    plan: "services.changes.source_plan.Plan",
    content: "SourceText",
    batch: str | None,
    *,
    dry_run: bool,
    forecast: "policy.forecast.comparison.ForecastComparison | None" = None,
) -> Document:
    """Return what applying does, or would do, as JSON."""
    names: dict[str, Any] = {kind: [each.name for each in found] for kind, found in plan.kinds.items()}
    shapes = {"conflicts": _conflict_shape, "refused": _refusal_shape}
    names |= {kind: map(shape, plan.kinds[kind]) for kind, shape in shapes.items()}
    renamed = (each for each in plan.kinds["changed"] if each.change.kind == "renamed")
    return make(
        "plan",
        plan,
        dry_run=dry_run,
        **names,
        renamed={each.name: each.before.name for each in renamed if each.before},
        warnings=[
            make("finding", place=place, message=message) for place, message in _warnings(plan, content)
        ],
        batch=batch,
        forecast=comparison_shape(forecast) if forecast else None,
    )


def _print_conflict(planned: "services.changes.source_plan.PlannedTask", *, reason: bool) -> None:
    lines = [planned.problem if reason else planned.name]
    for title, shown in (("by hand:", list(_hand_edits(planned))), ("the files:", _difference(planned))):
        if shown:
            lines += [title, *(f"  {line}" for line in presentation.differences.shortened(shown))]
    print_facts([("conflict", lines)])
    console.data()


def _hand_edits(planned: "services.changes.source_plan.PlannedTask") -> Iterator[str]:
    """Yield a line for each field that was changed by hand: its two values, and who changed it last."""
    edits = planned.edit.fields if planned.edit else ()
    names = {each.name for each in edits}
    for each in edits:
        if each.name == "argv" and "command" in names:  # the command has the same words
            continue
        option, before, after = presentation.owned_tasks.field_text(each.name, each.applied, each.present)
        author = services.changes.source_plan.author_of(each.last)
        yield f"{option}: {before} -> {after}   ({author})"


def _difference(planned: "services.changes.source_plan.PlannedTask") -> list[str]:
    return planned.change.difference() if planned.after else []


def _conflict_shape(planned: "services.changes.source_plan.PlannedTask") -> Document:
    edit = planned.edit
    fields = edit.fields if edit else ()
    return make(
        "conflict",
        task=planned.name,
        message=planned.problem,
        **_by(edit.last if edit else None),
        by_hand=planned.hand_difference,
        difference=planned.change.difference(),
        field_changes=[make("field-change", field=each.name, **_by(each.last)) for each in fields],
    )


def _by(last: "policy.history.RecordedChange | None") -> dict[str, Any]:
    """Return who made a change, when and why; nothing is known of plain SQL."""
    return {
        "by": last.author if last else None,
        "at": last.at if last else None,
        "reason": last.note if last else None,
    }


def _refusal_shape(planned: "services.changes.source_plan.PlannedTask") -> Document:
    source = planned.before.source if planned.before else None
    return make("refusal", task=planned.name, message=planned.problem, source=source)


def _warnings(plan: "services.changes.source_plan.Plan", content: "SourceText") -> list[tuple[str, str]]:
    """Return the warnings with their places; those about tasks that stay as they are are left out."""
    written = {each.name for each in plan.writes}
    found = [
        (str(notice.place), notice.message)
        for notice in content.notices
        if notice.task is None or notice.task in written
    ]
    passed = "its last time has passed, so it will not run"
    if plan.warning:
        found.insert(0, ("--take-from", plan.warning))
    found += [(str(each.place), f"{each.name}: no node accepts it: {why}") for each, why in plan.not_accepted]
    return found + [(str(each.place), f"{each.name}: {passed}") for each in plan.expired]
