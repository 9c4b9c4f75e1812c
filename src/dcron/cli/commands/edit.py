"""`edit`: change the crontab, or some of its tasks, as text in an editor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone, opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, SomeNames
from dcron.cli.task_differences import show
from dcron.errors import Refused, UsageError

if TYPE_CHECKING:
    from dcron.editor import TextFile
    from dcron.services.bulk_edit import BulkEdit
    from dcron.services.crontab import Crontab
    from dcron.services.text_edits import BadText, Changes, CrontabText, EditConflict


SHOWN = 50
"""Changes that are shown in full; the rest are counted. The same for mistakes."""


LONGEST = 1_000
"""Characters of a line in a difference."""


ROUNDS = 100
"""How often somebody may look at the changes and edit on."""


def command(
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
