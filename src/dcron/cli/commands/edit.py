"""`edit`: change the crontab, or some of its tasks, as text in an editor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dcron import presentation, services
from dcron.cli.asking.options import Db, Json, OptionalWholeNames
from dcron.cli.asking.warnings import print_owned
from dcron.cli.asking.which import named_tasks, with_patterns
from dcron.cli.output import console
from dcron.cli.output.documents import Document, make
from dcron.cli.output.task_differences import show
from dcron.cli.running.context import new_task_zone, opened_crontab
from dcron.errors import Refused, UsageError

if TYPE_CHECKING:
    from dcron.editor import TextFile


SHOWN = 50
"""Mistakes and conflicts that are shown; further ones are counted."""


ROUNDS = 100
"""How many times the user may return to the editor."""


def command(
    names: OptionalWholeNames = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Edit the crontab, or some of its tasks, as text in your editor.

    \b
    dcron edit
    EDITOR=nano dcron edit backup
    EDITOR="sed -i s/03:00/04:00/" dcron edit -y

    The editor is $VISUAL or $EDITOR. dcron checks the saved text, shows the changes with the next runs of
    each changed schedule, and asks. Either all changes are applied or none.
    """
    from dcron.editor import TextFile

    with opened_crontab(db, creates=True) as crontab:
        editing = services.bulk_edit.BulkEdit(crontab, new_task_zone(crontab).name)
        asks = console.consent.always_asks
        tasks = named_tasks(crontab, "edit", with_patterns(crontab, names), asks=asks) if names else []
        draft = editing.text([task.name for task in tasks] or None)
        with TextFile(draft.text) as file, _text_kept(file, draft):
            changes = _edited(crontab, editing, draft, file, shows=not as_json)
            if changes.changes:
                editing.apply(changes)
                print_owned(each.before for each in changes.changes if each.before)
    if as_json:
        console.emit(_shape(changes))
    else:
        console.data(_summary(changes) if changes.changes else "no change")


def _edited(
    crontab: "services.crontab.Crontab",
    editing: "services.bulk_edit.BulkEdit",
    draft: "services.changes.text_edits.CrontabText",
    file: "TextFile",
    *,
    shows: bool,
) -> "services.changes.text_edits.Changes":
    """Return the changes that the user has made and confirmed. Raises Refused."""
    from dcron.editor import open_editor

    crontab.database.close()  # no connection idles while the user types; the next statement opens one
    for _ in range(ROUNDS):
        changes = services.bulk_edit.revise(editing, draft, file, open_editor, again=console.is_attended())
        for notice in changes.notices:
            console.complain(f"warning: {notice}")
        if not changes.changes:
            return changes
        if shows:
            show(changes.changes, crontab.now())
        if console.consent.is_given(asks=True) or not _wants_to_edit_on(changes):
            return changes
    raise Refused("nothing was changed")


@contextmanager
def _text_kept(file: "TextFile", draft: "services.changes.text_edits.CrontabText") -> Iterator[None]:
    """Keep a text that was not applied; print where it is and what is wrong with it."""
    try:
        yield
    except BaseException as error:
        kept = services.bulk_edit.keep(file, draft)
        if isinstance(error, services.changes.text_edits.BadText):
            _print_mistakes(error, str(kept or "text"))
        if isinstance(error, services.changes.text_edits.EditConflict):
            _print_conflicts(error)
        if kept:
            console.note(f"your text is kept in {kept}")
        if isinstance(error, services.changes.text_edits.BadText):
            raise UsageError("nothing was changed") from None
        raise


def _print_mistakes(bad: "services.changes.text_edits.BadText", source: str) -> None:
    for line, column, message in bad.mistakes[:SHOWN]:
        console.note(f"{source}:{line}:{column}: {message}")
    if len(bad.mistakes) > SHOWN:
        console.note(f"and {len(bad.mistakes) - SHOWN:,} more")


def _print_conflicts(conflict: "services.changes.text_edits.EditConflict") -> None:
    """Print the differences between the user's tasks and those that others have changed."""
    for each in conflict.overtaken[:SHOWN]:
        console.note("- theirs, + yours:")
        for line in presentation.differences.shortened(each.difference()):
            console.note(f"  {line}")


def _wants_to_edit_on(changes: "services.changes.text_edits.Changes") -> bool:
    """Ask whether to apply, and return whether to edit further. Raises Refused if the answer is no.

    The default is no where tasks are removed.
    """
    if console.consent.is_protected or not console.is_attended():
        console.agree(f"apply {_summary(changes)}")
        return False
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


def _shape(changes: "services.changes.text_edits.Changes") -> Document:
    kinds = ("added", "changed", "removed")
    names = {kind: [each.name for each in changes.changes if each.kind == kind] for kind in kinds}
    renamed = {
        each.name: each.before.name for each in changes.changes if each.kind == "renamed" and each.before
    }
    return make("edited", **names, renamed=renamed)


def _summary(changes: "services.changes.text_edits.Changes") -> str:
    counts = (changes.count("added"), changes.count("changed", "renamed"), changes.count("removed"))
    return "{:,} added, {:,} changed, {:,} removed".format(*counts)
