"""Undo changes from the screen: what would be done is shown first, and the reason is asked for."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dcron.errors import DcronError, Refused
from dcron.policy.history import RecordedChange
from dcron.services.crontab import Crontab
from dcron.services.undo import LaterChanges, Undo, Undone
from dcron.tui.forms.dialog_text import Part, content
from dcron.tui.forms.dialogs import Choice, decide
from dcron.tui.history import texts
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act


@dataclass(frozen=True)
class Plan:
    """What is to be undone, and what the undo would do."""

    title: str
    """Such as `undo change 12`."""
    words: Sequence[str]
    """The words of the command line that does the same."""
    changes: Sequence[RecordedChange]
    would: Undone
    force: bool


Find = Callable[[Crontab], tuple[str, Sequence[str], Sequence[RecordedChange]]]
"""Returns the title, the words of the command line and the changes to undo. Raises DcronError."""


def undo_change(host: Host, change: RecordedChange | None) -> None:
    """Undo this change. One that is undone already is refused: its undo can be undone."""

    def find(crontab: Crontab) -> tuple[str, Sequence[str], Sequence[RecordedChange]]:
        assert change
        title = f"undo change {change.id}"
        return title, ["--change", str(change.id)], Undo(crontab).change(change.id)

    if host.may_act([change] if change else []):
        _ask(host, find)


def undo_own_act(host: Host) -> None:
    """Undo the last act of this session that is not undone yet."""
    own = list(host.own_batches)

    def find(crontab: Crontab) -> tuple[str, Sequence[str], Sequence[RecordedChange]]:
        batch, found = Undo(crontab).last_act(own)
        return "undo your last act", ["--batch", batch], found

    if host.may_act([host]):
        _ask(host, find)


def _ask(host: Host, find: Find, *, force: bool = False) -> None:
    """Show what the undo would do, and do it if the person agrees."""

    def check(crontab: Crontab) -> Plan:
        title, words, found = find(crontab)
        return Plan(title, words, found, Undo(crontab).check(found, force=force), force)

    def refused(error: DcronError) -> None:
        if isinstance(error, LaterChanges) and not force:
            _ask_despite(host, find, error)
        else:
            host.report_error(error)

    host.write(check, lambda plan: _agree(host, plan), refused)


def _ask_despite(host: Host, find: Find, error: LaterChanges) -> None:
    """Show the later changes that would be lost, and let the person undo despite them."""
    parts: list[Part] = [(error.reason, "")]
    parts += texts.later(error.later, host.health.now())
    force = Choice("f", "shows the undo all the same", lambda: _ask(host, find, force=True))
    decide(host, "later changes would be lost", content(parts), [force], "leaves it")


def _agree(host: Host, plan: Plan) -> None:
    parts = [*texts.undone(plan.would, host.health.now()), ("", ""), (_command(plan), "$foreground-muted")]
    undo = Choice("y", "undoes it", lambda: _ask_why(host, plan))
    decide(host, f"{plan.title}?", content(parts), [undo], "leaves it")


def _ask_why(host: Host, plan: Plan) -> None:
    host.ask_for(
        f"{plan.title}: why?",
        lambda note: host.act([_act(plan, note.strip() or None)]),
        hint="may be empty; Enter undoes it",
    )


def _act(plan: Plan, note: str | None) -> Act:
    def do(crontab: Crontab) -> str:
        try:
            undone = Undo(crontab.noting(note)).undo(plan.changes, force=plan.force)
        except LaterChanges as error:
            raise Refused(f"{error.reason}; look at it again") from None
        names = [each.name for each in undone.tasks] + [each.subject for each in undone.others]
        more = f", and {len(names) - 1:,} more" if len(names) > 1 else ""
        return f"undone: {names[0]}{more}"

    return Act(plan.title, _command(plan, note), do)


def _command(plan: Plan, note: str | None = None) -> str:
    why = ["-m", note] if note else []
    return shlex.join(["dcron", "undo", *plan.words, *(["--force"] if plan.force else []), *why])
