"""Compare two forecasts: what a change of the crontab does to its load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.model import SkipCode
from dcron.policy.forecast.summary import CrowdedMinute, ForecastSkips, Outlook

Starts = Mapping[str, Sequence[datetime]]
"""When the runs of each task are due, by its name."""


@dataclass(frozen=True)
class MovedStarts:
    """A task whose runs come due at other times than before."""

    task: str
    before: Sequence[datetime]
    after: Sequence[datetime]


@dataclass(frozen=True)
class ForecastComparison:
    """Two forecasts, and what is new in the second one."""

    before: Outlook
    after: Outlook
    moved: Sequence[MovedStarts]
    overlaps: Sequence[ForecastSkips]
    """Tasks of which more runs are skipped because an earlier one is still active."""
    crowded: Sequence[CrowdedMinute]
    """Minutes whose runs start late, and did not before."""
    unserved: Sequence[tuple[str, str]]
    """Tasks that no node takes any more, each with the reason."""


def compare(
    before: Outlook, after: Outlook, starts_before: Starts, starts_after: Starts
) -> ForecastComparison:
    """Return what is new in the second forecast."""
    names = sorted({*starts_before, *starts_after})
    moved = (MovedStarts(name, starts_before.get(name, ()), starts_after.get(name, ())) for name in names)
    skipped = {each.task: each.count for each in before.skips if each.code is SkipCode.OVERLAP}
    crowded = {minute.at for minute in before.crowded}
    unserved = dict(before.unserved)
    return ForecastComparison(
        before=before,
        after=after,
        moved=[each for each in moved if list(each.before) != list(each.after)],
        overlaps=[
            each
            for each in after.skips
            if each.code is SkipCode.OVERLAP and each.count > skipped.get(each.task, 0)
        ],
        crowded=[minute for minute in after.crowded if minute.at not in crowded],
        unserved=[(task, why) for task, why in after.unserved if task not in unserved],
    )
