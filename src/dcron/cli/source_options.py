"""The options of `diff` and `apply`, and the output of a plan."""

from collections.abc import Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone
from dcron.errors import CrontabFileError, UsageError
from dcron.json_values import instant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from dcron.policy.forecast_comparison import ForecastComparison
    from dcron.services.crontab import Crontab
    from dcron.services.forecast import Edit
    from dcron.services.source_plan import Plan, PlannedTask
    from dcron.sources import SourceText

AHEAD = timedelta(hours=24)
SHOWN = 20
"""Tasks of one kind that are printed; further ones are counted."""
MISTAKES_SHOWN = 50
LONGEST = 1_000
"""Characters of a line in a difference."""

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


def edits_of(plan: "Plan") -> "list[Edit]":
    """Return each task that the plan writes, before and after."""
    return [(each.before, each.after) for each in plan.writes]


def compared(crontab: "Crontab", plan: "Plan", here: Any) -> "ForecastComparison":
    """Return what the changes of the plan do to the load of the next 24 hours."""
    from dcron.services.forecast import Forecast

    return Forecast(crontab).compare(edits_of(plan), crontab.now() + AHEAD, here=here)


def read_files(crontab: "Crontab", files: Sequence[str], format: Any) -> "SourceText":
    """Return the contents of the files. Raises CrontabFileError with all mistakes."""
    from dcron import sources

    return sources.read([Path(name) for name in files], timezone=new_task_zone(crontab).name, format=format)


@contextmanager
def places_printed() -> "Iterator[None]":
    """Print mistakes in the files with their places, for editors to jump to, before the verb ends with 2."""
    try:
        yield
    except CrontabFileError as error:
        mistakes = str(error).split("\n")
        console.note("\n".join(mistakes[:MISTAKES_SHOWN]))
        if len(mistakes) > MISTAKES_SHOWN:
            console.note(f"and {len(mistakes) - MISTAKES_SHOWN:,} more")
        raise UsageError("nothing was changed") from None


def show_plan(plan: "Plan", now: "datetime", *, reasons: bool) -> None:
    """Print what `apply` would change, as `edit` does, and what it cannot apply. With `reasons`, say why."""
    from dcron.cli.task_differences import show
    from dcron.services.text_edits import Changes

    for each in plan.adopted[:SHOWN]:
        before = each.before.source if each.before else None
        console.data(f"adopted  {each.name}, which belongs to {before or 'no source'}")
    _print_rest(plan.adopted)
    show(Changes([each.change for each in plan.writes if _is_defined_anew(each)]), now)
    for each in plan.extra[:SHOWN]:
        console.data(f"extra    {each.name} is not in the files; --prune removes it")
    _print_rest(plan.extra)
    for each in plan.conflicts[:SHOWN]:
        _print_conflict(each, reason=reasons)
    _print_rest(plan.conflicts)
    for each in plan.refused[:SHOWN]:
        console.data(f"refused  {each.problem if reasons else each.name}")
    _print_rest(plan.refused)
    if plan.obstacle and reasons:
        console.data(f"refused  {plan.obstacle}")


def summary(plan: "Plan") -> str:
    """Return how many tasks there are of each kind."""
    kinds = ("added", "changed", "removed", "adopted", "unchanged", "extra", "conflicts", "refused")
    counts = {kind: len(getattr(plan, kind)) for kind in kinds}
    words = {"conflicts": "in conflict"}
    shown = [
        f"{count:,} {words.get(kind, kind)}" for kind, count in counts.items() if count or kind == "unchanged"
    ]
    return f"{plan.source}: {', '.join(shown)}"


def print_warnings(plan: "Plan", content: "SourceText") -> None:
    """Print the warnings about what applying changes."""
    for place, message in _warnings(plan, content):
        console.note(f"{place}: warning: {message}")


def plan_shape(
    plan: "Plan",
    content: "SourceText",
    batch: str | None,
    *,
    dry_run: bool,
    forecast: "ForecastComparison | None" = None,
) -> dict[str, Any]:
    """Return what applying does, or would do, as JSON."""
    from dcron.cli import json_output

    kinds = ("added", "changed", "removed", "adopted", "extra", "unchanged")
    renamed = {each.name: each.before.name for each in plan.changed if each.before and each.is_renamed}
    return {
        "source": plan.source,
        "dry_run": dry_run,
        **{kind: [each.name for each in getattr(plan, kind)] for kind in kinds},
        "renamed": renamed,
        "conflicts": [_conflict_shape(each) for each in plan.conflicts],
        "refused": [_refusal_shape(each) for each in plan.refused],
        "obstacle": plan.obstacle,
        "warnings": [{"place": place, "message": message} for place, message in _warnings(plan, content)],
        "batch": batch,
        "forecast": json_output.comparison_shape(forecast) if forecast else None,
    }


def _is_defined_anew(planned: "PlannedTask") -> bool:
    """Return whether the task is added or removed, or its definition changes."""
    before, after = planned.before, planned.after
    return not (before and after) or before.definition() != after.definition()


def _print_rest(tasks: "Sequence[PlannedTask]") -> None:
    if len(tasks) > SHOWN:
        console.data(f"         … and {len(tasks) - SHOWN:,} more")


def _print_conflict(planned: "PlannedTask", *, reason: bool) -> None:
    from dcron.cli.tables import print_facts

    lines = [planned.problem if reason else planned.name]
    for title, shown in (("by hand:", list(_hand_edits(planned))), ("the files:", _difference(planned))):
        if shown:
            lines += [title, *(f"  {line[:LONGEST]}" for line in shown)]
    print_facts([("conflict", lines)])
    console.data()


def _hand_edits(planned: "PlannedTask") -> "Iterator[str]":
    """Yield a line for each field that was changed by hand: its two values, and who changed it last."""
    from dcron.presentation.owned_tasks import field_text
    from dcron.services.source_plan import author_of

    edits = planned.edit.fields if planned.edit else ()
    names = {each.name for each in edits}
    for each in edits:
        if each.name == "argv" and "command" in names:  # the command has the same words
            continue
        option, before, after = field_text(each.name, each.applied, each.present)
        yield f"{option}: {before} -> {after}   ({author_of(each.by, each.at, each.note)})"


def _difference(planned: "PlannedTask") -> list[str]:
    return planned.change.difference() if planned.after else []


def _conflict_shape(planned: "PlannedTask") -> dict[str, Any]:
    edit = planned.edit
    return {
        "name": planned.name,
        "message": planned.problem,
        "by": edit.by if edit else None,
        "at": instant(edit.at) if edit else None,
        "note": edit.note if edit else None,
        "by_hand": planned.hand_difference,
        "difference": planned.change.difference(),
        "fields": [
            {"field": each.name, "by": each.by, "at": instant(each.at), "note": each.note}
            for each in (edit.fields if edit else ())
        ],
    }


def _refusal_shape(planned: "PlannedTask") -> dict[str, Any]:
    source = planned.before.source if planned.before else None
    return {"name": planned.name, "message": planned.problem, "source": source}


def _warnings(plan: "Plan", content: "SourceText") -> list[tuple[str, str]]:
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
    return found + [(str(each.place), f"{each.name}: {passed}") for each in plan.expired]
