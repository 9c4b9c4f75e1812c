"""When the crontab is frozen: then no run starts by itself."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from dcron.model import Freeze


def end_of(freeze: Freeze) -> datetime | None:
    """Return when the freeze ends or has ended; None if no end is known."""
    return min(filter(None, (freeze.until_at, freeze.thawed_at)), default=None)


def holds(freeze: Freeze, at: datetime) -> bool:
    """Return whether the freeze holds at this time."""
    end = end_of(freeze)
    return freeze.from_at <= at and (end is None or at < end)


def state_of(freeze: Freeze, now: datetime) -> str:
    """Return `active`, `planned` (it begins later) or `over`."""
    end = end_of(freeze)
    if end is not None and (end <= now or end <= freeze.from_at):
        return "over"
    return "active" if freeze.from_at <= now else "planned"


class FrozenTime:
    """The times in which at least one of some freezes holds."""

    def __init__(self, freezes: Iterable[Freeze] = ()) -> None:
        """Take freezes in any order."""
        self._freezes = tuple(sorted(freezes, key=lambda each: (each.from_at, each.id)))

    def __bool__(self) -> bool:
        """Whether there are freezes."""
        return bool(self._freezes)

    def __eq__(self, other: object) -> bool:
        """Whether these are the same freezes."""
        return isinstance(other, FrozenTime) and self._freezes == other._freezes

    def __hash__(self) -> int:
        """Equal freezes have the same."""
        return hash(self._freezes)

    def at(self, time: datetime) -> Freeze | None:
        """Return the freeze that holds at this time; of several the one that ends last."""
        holding = (each for each in self._freezes if holds(each, time))
        return max(holding, key=lambda each: _rank(end_of(each)), default=None)

    def between(self, begin: datetime, end: datetime) -> timedelta:
        """Return for how long the crontab was frozen between these times."""
        frozen = ((max(start, begin), stop) for start, stop in self._spans(end))
        return sum((stop - start for start, stop in frozen if stop > start), timedelta())

    def waited(self, since: datetime, now: datetime) -> timedelta:
        """Return for how long something has waited, frozen time excluded."""
        return max(now - since, timedelta()) - self.between(since, now)

    def waiting_since(self, wait: timedelta, now: datetime) -> datetime:
        """Return the earliest time since which something has waited for at most `wait`."""
        at, left = now, wait
        for begin, end in reversed(self._spans(now)):
            if at - end > left:
                break
            at, left = begin, left - (at - end)
        return at - left

    def _spans(self, until: datetime) -> list[tuple[datetime, datetime]]:
        """Return the begin and the end of each frozen time before `until`, in order; they do not overlap."""
        spans: list[tuple[datetime, datetime]] = []
        for each in self._freezes:
            begin, end = each.from_at, min(end_of(each) or until, until)
            if end <= begin:
                continue
            if spans and begin <= spans[-1][1]:
                begin, end = spans[-1][0], max(end, spans.pop()[1])
            spans.append((begin, end))
        return spans

    def mostly(self, begin: datetime, end: datetime) -> Freeze | None:
        """Return the first freeze of this time, if it was frozen for at least half of it."""
        if begin == end:
            return self.at(begin)
        if 2 * self.between(begin, end) < end - begin:
            return None
        return next((each for each in self._freezes if _overlaps(each, begin, end)), None)

    def end_after(self, time: datetime) -> datetime | None:
        """Return the first time from this one on that is not frozen; None if no end is known."""
        at = time
        while freeze := self.at(at):
            end = end_of(freeze)
            if end is None:
                return None
            at = end
        return at

    def reason_at(self, time: datetime) -> str | None:
        """Return why no run starts by itself at this time; None if it is not frozen."""
        freeze = self.at(time)
        return reason_of(freeze) if freeze else None


def _overlaps(freeze: Freeze, begin: datetime, end: datetime) -> bool:
    stop = end_of(freeze)
    return max(freeze.from_at, begin) < min(stop or end, end)


NEVER = FrozenTime()


def reason_of(freeze: Freeze) -> str:
    """Return `frozen by ann@desk: database upgrade`."""
    by = f" by {freeze.created_by}" if freeze.created_by else ""
    return f"frozen{by}" + (f": {freeze.reason}" if freeze.reason else "")


def _rank(end: datetime | None) -> tuple[bool, float]:
    """Return a key by which ends sort: an unknown one is the latest."""
    return end is None, 0.0 if end is None else end.timestamp()
