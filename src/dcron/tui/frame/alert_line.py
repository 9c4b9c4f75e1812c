"""The lines of the screen that say in words what is wrong now, and that the crontab is frozen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from dcron.model import AlertKind
from dcron.presentation import alerts, humanize
from dcron.presentation.humanize import plural
from dcron.tui.frame.header_footer import Line, Part
from dcron.values.safe_text import cells, safe, shorten_middle

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.model import Freeze
    from dcron.services.dashboard import Counts
    from dcron.values.lists import UnacknowledgedAlerts

SHORTEST_NAME = 8
"""Least cells to which the name of an alert is shortened."""


@dataclass(frozen=True)
class Clause:
    """One thing that is wrong, in words."""

    text: str
    short: str
    """The same for a narrow screen."""
    action: str
    """The action of a click on it."""


class AlertLine(Line):
    """What is wrong now, in words. It is visible only if something is."""

    def update_alerts(self) -> None:
        """Show, hide or draw the line. It is less conspicuous if only dead letters are left."""
        counts = self.host.counts
        is_broken = bool(counts and (counts.activity.alerts or counts.late.number))
        self.set_class(is_broken, "-broken")
        self.set_class(bool(counts and counts.dead and not is_broken), "-dead-only")
        self.refresh()

    def parts(self) -> Iterator[Part]:
        """Yield each clause as far as there is room."""
        if (counts := self.host.counts) is None:
            return
        clauses = fitting(counts, self.host.zone, self.host.health.now(), self.size.width - 1)
        left = self.size.width
        for position, (text, action) in enumerate(clauses):
            shown = f"{'; ' if position else ' '}{text}"
            left -= cells(shown)
            yield shown, "", action
        yield " " * max(0, left), "", ""


class FreezeLine(Line):
    """Who froze the crontab, until when and why. It is visible only while the crontab is frozen."""

    def update_freeze(self) -> None:
        """Show, hide or draw the line."""
        self.display = self._found() is not None
        self.refresh()

    def _found(self) -> "Freeze | None":
        return self.host.counts.activity.frozen if self.host.counts else None

    def parts(self) -> Iterator[Part]:
        """Yield the one part."""
        if found := self._found():
            from dcron.presentation.freezes import sentence

            text = safe(f" {sentence(found, self.host.zone, self.host.health.now())}  (:thaw ends it)")
            yield text + " " * max(0, self.size.width - cells(text)), "", ""


def fitting(counts: "Counts", zone: tzinfo, now: datetime, room: int) -> list[tuple[str, str]]:
    """Return what is wrong in at most so many cells: texts, and the action of each.

    The longer words go first, from the last clause on, then the middle of the name of the alert.
    """
    found = counts.activity.alerts
    clauses = [*_late(counts, now), *_dead(counts)]
    name = safe(alerts.name(found.newest)) if found else ""
    heads = [_alert(found, name, zone, now)] if found else []
    shown = [*heads, *clauses]
    for number_short in range(len(shown) + 1):
        texts = _texts(shown, len(shown) - number_short)
        if _length(texts) <= room:
            return texts
    if found and heads:
        over = _length(_texts(shown, 0)) - room
        name = shorten_middle(name, max(SHORTEST_NAME, cells(name) - over))
        shown = [_alert(found, name, zone, now), *clauses]
    return _texts(shown, 0)


def _texts(clauses: Sequence[Clause], number_long: int) -> list[tuple[str, str]]:
    return [(each.text if i < number_long else each.short, each.action) for i, each in enumerate(clauses)]


def _length(texts: Sequence[tuple[str, str]]) -> int:
    return sum(cells(text) for text, _ in texts) + 2 * (len(texts) - 1)


def _alert(found: "UnacknowledgedAlerts", name: str, zone: tzinfo, now: datetime) -> Clause:
    """Return the newest alert, and how many others there are."""
    newest, others = found.newest, found.count - 1
    since = humanize.clock(newest.opened_at.replace(second=0), zone, now)
    if newest.kind == AlertKind.FAILING and newest.times > 1:
        text = f"{name} failed {newest.times:,} times since {since}"
    else:
        text = f"{name} {safe(alerts.lasting(newest.kind))} since {since}"
    more = f", and {plural(others, 'other alert')}" if others else ""
    return Clause(f"{text}{more}", f"{text} (+{others:,})" if others else text, "screen.view('alerts')")


def _late(counts: "Counts", now: datetime) -> Iterator[Clause]:
    late = counts.late
    if late.number and late.since:
        longest = humanize.rough_span((now - late.since).total_seconds())
        words = f"1 task is late by {longest}"
        if late.number > 1:
            words = f"{late.number:,} tasks are late, the longest by {longest}"
        yield Clause(words, f"{late.number:,} late ({longest})", "screen.show_tasks('late')")


def _dead(counts: "Counts") -> Iterator[Clause]:
    if counts.dead:
        more = "+" if counts.has_more_dead else ""
        words = f"{counts.dead:,}+ dead letters" if more else plural(counts.dead, "dead letter")
        yield Clause(words, f"{counts.dead:,}{more} dead", "screen.view('dead')")
