"""`edit`: change the crontab, or some of its tasks, as text in an editor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone, opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, OptionalWholeNames
from dcron.cli.task_differences import show
from dcron.errors import Refused, UsageError

if TYPE_CHECKING:
    from dcron.editor import TextFile
    from dcron.services.bulk_edit import BulkEdit
    from dcron.services.crontab import Crontab
    from dcron.services.text_edits import BadText, Changes, CrontabText, EditConflict


SHOWN = 50
"""Mistakes and conflicts that are shown; further ones are counted."""


LONGEST = 1_000
"""Characters of a line in a difference."""


ROUNDS = 100
"""How many times the user may return to the editor."""


def command(
    names: OptionalWholeNames = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Apply the changes without asking.")] = False,
    db: Db = None,
) -> None:
    """Edit the crontab, or some of its tasks, as text in your editor.

    \b
    dcron edit
    EDITOR=nano dcron edit backup
    EDITOR="sed -i s/03:00/04:00/" dcron edit --force

    The editor is $VISUAL or $EDITOR. dcron checks the saved text, shows the changes with the next runs of
    each changed schedule, and asks. Either all changes are applied or none.
    """
    from dcron.cli.warnings import print_owned
    from dcron.editor import TextFile
    from dcron.services.bulk_edit import BulkEdit

    with opened_crontab(db, creates=True) as crontab:
        editing = BulkEdit(crontab, new_task_zone(crontab).name)
        tasks = all_to_change(crontab, "edit", names, force=force) if names else []
        draft = editing.text([task.name for task in tasks] or None)
        with TextFile(draft.text) as file, _text_kept(file, draft):
            changes = _edited(crontab, editing, draft, file, force=force)
            if changes.changes:
                editing.apply(changes)
                print_owned(each.before for each in changes.changes if each.before)
    console.data(_summary(changes) if changes.changes else "no change")


def _edited(
    crontab: "Crontab", editing: "BulkEdit", draft: "CrontabText", file: "TextFile", *, force: bool
) -> "Changes":
    """Return the changes that the user has made and confirmed. Raises Refused."""
    from dcron.editor import open_editor
    from dcron.services.bulk_edit import revise

    crontab.database.close()  # no connection idles while the user types; the next statement opens one
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
def _text_kept(file: "TextFile", draft: "CrontabText") -> Iterator[None]:
    """Keep a text that was not applied; print where it is and what is wrong with it."""
    from dcron.services import text_edits
    from dcron.services.bulk_edit import keep

    try:
        yield
    except BaseException as error:
        kept = keep(file, draft)
        if isinstance(error, text_edits.BadText):
            _print_mistakes(error, str(kept or "text"))
        if isinstance(error, text_edits.EditConflict):
            _print_conflicts(error)
        if kept:
            console.note(f"your text is kept in {kept}")
        if isinstance(error, text_edits.BadText):
            raise UsageError("nothing was changed") from None
        raise


def _print_mistakes(bad: "BadText", source: str) -> None:
    for line, column, message in bad.mistakes[:SHOWN]:
        console.note(f"{source}:{line}:{column}: {message}")
    if len(bad.mistakes) > SHOWN:
        console.note(f"and {len(bad.mistakes) - SHOWN:,} more")


def _print_conflicts(conflict: "EditConflict") -> None:
    """Print the differences between the user's tasks and those that others have changed."""
    for each in conflict.overtaken[:SHOWN]:
        console.note("- theirs, + yours:")
        for line in each.difference():
            console.note(f"  {line[:LONGEST]}")


def _wants_to_edit_on(changes: "Changes") -> bool:
    """Ask whether to apply, and return whether to edit further. Raises Refused if the answer is no.

    The default is no where tasks are removed.
    """
    if not console.is_attended():
        raise Refused(f"{_summary(changes)}: there is no terminal to ask on; repeat it with --force")
    default = "n" if changes.count("removed") else "y"
    choices = "[y/N/e]" if default == "n" else "[Y/n/e]"
    sys.stderr.write(f"{_summary(changes)}: apply? {choices} (e: edit again) ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply.endswith("\n"):
        sys.stderr.write("\n")
        reply = "n"
    answer = reply.strip().lower() or default
    if answer in ("e", "edit"):
        return True
    if answer not in ("y", "yes"):
        raise Refused("nothing was changed")
    return False


def _summary(changes: "Changes") -> str:
    counts = (changes.count("added"), changes.count("changed", "renamed"), changes.count("removed"))
    return "{:,} added, {:,} changed, {:,} removed".format(*counts)
