"""`edit`: the whole crontab, or one task, as text in an editor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone, opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, SomeNames
from dcron.errors import Refused, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from dcron.editor import TextFile
    from dcron.services.bulk_edit import BulkEdit
    from dcron.services.crontab import Crontab
    from dcron.services.text_edits import BadText, Changes, CrontabText, EditConflict, TaskChange

SHOWN = 50
"""Changes that are shown in full; the rest are counted. The same for mistakes."""
LONGEST = 1_000
"""Characters of a line in a difference."""
ROUNDS = 100
"""How often somebody may look at the changes and edit on."""


def edit(
    names: SomeNames = None,
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Apply what was changed without asking.")
    ] = False,
    db: Db = None,
) -> None:
    """Change the crontab, or some tasks, as text in your editor.

    The editor is $VISUAL or $EDITOR. What was saved is checked; then you see what would change, and the next
    runs of every schedule that does, and are asked. It is done wholly or not at all.

    \b
    dcron edit
    EDITOR=nano dcron edit backup
    EDITOR="sed -i s/03:00/04:00/" dcron edit --force
    """
    from dcron.editor import TextFile
    from dcron.services.bulk_edit import BulkEdit

    with opened_crontab(db) as crontab:
        editing = BulkEdit(crontab, new_task_zone(crontab).name)
        wanted = all_to_change(crontab, "edit", names, force=force) if names else []
        draft = editing.text([task.name for task in wanted] or None)
        with TextFile(draft.text) as file, _nothing_lost(file, draft):
            changes = _edited(crontab, editing, draft, file, force=force)
            if changes.changes:
                editing.apply(changes)
    console.data(_summary(changes) if changes.changes else "no change")


def _edited(
    crontab: "Crontab", editing: "BulkEdit", draft: "CrontabText", file: "TextFile", *, force: bool
) -> "Changes":
    """The changes that a person has made and agreed to; none if there are none."""
    from dcron.editor import open_editor
    from dcron.services.bulk_edit import revise

    crontab.database.close()  # nobody's connection idles while somebody types; it opens again by itself
    for _ in range(ROUNDS):
        changes = revise(editing, draft, file, open_editor, again=console.is_attended())
        for notice in changes.notices:
            console.complain(f"warning: {notice}")
        if not changes.changes:
            return changes
        show(changes, crontab.now())
        if force or not _wants_to_edit_on(changes):
            return changes
    raise Refused("nothing was changed")


@contextmanager
def _nothing_lost(file: "TextFile", draft: "CrontabText") -> Iterator[None]:
    """However it ends, a text that was not applied is kept, and said where; and what was wrong with it."""
    from dcron.services import text_edits
    from dcron.services.bulk_edit import keep

    try:
        yield
    except BaseException as error:
        kept = keep(file, draft)
        if isinstance(error, text_edits.BadText):
            _tell_mistakes(error, str(kept or "text"))
        if isinstance(error, text_edits.EditConflict):
            _tell_conflicts(error)
        if kept:
            console.note(f"your text is kept in {kept}")
        if isinstance(error, text_edits.BadText):
            raise UsageError("nothing was changed") from None
        raise


def _tell_mistakes(bad: "BadText", source: str) -> None:
    for line, column, message in bad.mistakes[:SHOWN]:
        console.note(f"{source}:{line}:{column}: {message}")
    if len(bad.mistakes) > SHOWN:
        console.note(f"and {len(bad.mistakes) - SHOWN:,} more")


def _tell_conflicts(conflict: "EditConflict") -> None:
    """What the others' lines and one's own have in common, and what they have not."""
    for each in conflict.overtaken[:SHOWN]:
        console.note("- theirs, + yours:")
        for line in each.difference():
            console.note(f"  {line[:LONGEST]}")


def show(changes: "Changes", now: "datetime") -> None:
    """Print changes of tasks as differences, with the runs they move."""
    for change in changes.changes[:SHOWN]:
        _show_change(change, now)
    if rest := changes.changes[SHOWN:]:
        removed = sum(change.kind == "removed" for change in rest)
        console.data(f"… and {len(rest):,} more" + (f", {removed:,} of them removed" if removed else ""))
    sys.stdout.flush()


def _show_change(change: "TaskChange", now: "datetime") -> None:
    from dcron.cli.tables import AlarmCell, print_facts
    from dcron.presentation import next_runs

    lines = [line[:LONGEST] + ("…" if len(line) > LONGEST else "") for line in change.difference()]
    old = f"{change.before.name} -> " if change.before and change.kind == "renamed" else ""
    shown = [AlarmCell(line) if line.startswith("-") else line for line in lines]
    moved = next_runs.moved_runs(change.before, change.after, now) if change.after else ()
    print_facts([(change.kind, [old + change.name, *shown]), *moved])
    console.data()
    if change.after and next_runs.times_differ(change.before, change.after):
        sys.stdout.flush()
        for code, message in next_runs.warnings(change.after, now):
            console.complain(f"warning: {change.name}: {message} [{code}]")


def _wants_to_edit_on(changes: "Changes") -> bool:
    """Ask whether to apply; Enter is No where something is removed. Raises Refused where it is no."""
    if not console.is_attended():
        raise Refused(f"{_summary(changes)}: nobody is here to say yes; repeat it with --force")
    default = "n" if changes.count("removed") else "y"
    choices = "[y/N/e]" if default == "n" else "[Y/n/e]"
    sys.stderr.write(f"{_summary(changes)}: apply? {choices} (e: edit on) ")
    sys.stderr.flush()
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        sys.stderr.write("\n")
        said = "n"
    answer = said.strip().lower() or default
    if answer in ("e", "edit"):
        return True
    if answer not in ("y", "yes"):
        raise Refused("nothing was changed")
    return False


def _summary(changes: "Changes") -> str:
    counts = (changes.count("added"), changes.count("changed", "renamed"), changes.count("removed"))
    return "{:,} added, {:,} changed, {:,} removed".format(*counts)
