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
        self._freezes = sorted(freezes, key=lambda each: each.from_at)

    def __bool__(self) -> bool:
        """Whether there are freezes."""
        return bool(self._freezes)

    def at(self, time: datetime) -> Freeze | None:
        """Return the freeze that holds at this time; of several the one that ends last."""
        holding = (each for each in self._freezes if holds(each, time))
        return max(holding, key=lambda each: _rank(end_of(each)), default=None)

    def between(self, begin: datetime, end: datetime) -> timedelta:
        """Return for how long the crontab was frozen between these times."""
        total, counted = timedelta(), begin
        for each in self._freezes:
            start, stop = max(each.from_at, counted), min(end_of(each) or end, end)
            if stop > start:
                total += stop - start
                counted = stop
        return total

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
