"""Shorten lists of starts: many starts in a row within a freeze become a few and a number."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo

from dcron.policy.forecast.start_times import TaskStart
from dcron.policy.starting.freezes import FrozenTime
from dcron.presentation import humanize
from dcron.presentation.next_runs import SKIPPED_SHOWN


@dataclass(frozen=True)
class FrozenRest:
    """Frozen starts that are left out of a list."""

    number: int
    end: datetime | None
    """When the freeze of the last of them ends; None if no end is known."""

    def number_text(self, *, counts: bool) -> str:
        """Return `and 58 more`; `and others` where the list has no end, so that the number means nothing."""
        return f"and {self.number:,} more" if counts else "and others"

    def until_text(self, here: tzinfo | None) -> str:
        """Return until when they are frozen."""
        until = humanize.full(self.end.astimezone(here)) if self.end else "`dcron thaw`"
        return f"frozen until {until}"


def fold_frozen(found: Iterable[TaskStart], frozen: FrozenTime) -> Iterator[TaskStart | FrozenRest]:
    """Yield the starts; of several frozen ones in a row only SKIPPED_SHOWN, and one item for the rest."""
    in_a_row, last_at = 0, None
    for start in found:
        is_frozen = frozen.at(start.at) is not None
        if not is_frozen:
            yield from _rest(in_a_row, last_at, frozen)
        in_a_row, last_at = (in_a_row + 1, start.at) if is_frozen else (0, None)
        if in_a_row <= SKIPPED_SHOWN:
            yield start
    yield from _rest(in_a_row, last_at, frozen)


def _rest(in_a_row: int, last_at: datetime | None, frozen: FrozenTime) -> Iterator[FrozenRest]:
    if last_at and in_a_row > SKIPPED_SHOWN:
        yield FrozenRest(in_a_row - SKIPPED_SHOWN, frozen.end_after(last_at))
