"""The rules at clock changes: from the faces a schedule names to the instants it runs at.

The rules are those of docs/schedules.md, checked against Debian cron's own code. Both walks are pure:
the answer does not depend on where the walk before ended.
"""

from datetime import datetime
from typing import Protocol

from dcron.schedule.rules import Fold, Gap
from dcron.schedule.transitions import REACH, SECOND, ZoneClock


class Faces(Protocol):
    """Something that names faces of the clock on the wall."""

    def next_face(self, face: datetime) -> datetime | None:
        """The first face it names strictly after this one; None when there is none."""


def next_interval(faces: Faces, clock: ZoneClock, after: datetime) -> datetime | None:
    """The first real tick after an instant at which the clock shows a named face.

    Faces that are left out do not occur, faces that come twice do so in both passes, nothing is caught up.
    """
    seen = here = after
    shown = clock.face(after)
    while (face := faces.next_face(shown)) is not None:
        instant = here + (face - shown)
        change = next(clock.changes(seen, instant), None)
        if change is None:
            return instant
        # The clock jumps on the way: start again at the change, with the face it then shows.
        seen, here, shown = change.at, change.at - SECOND, change.resumed - SECOND
    return None


def next_fixed(faces: Faces, clock: ZoneClock, after: datetime, gap: Gap, fold: Fold) -> datetime | None:
    """The first instant after another at which a schedule of fixed times runs.

    A face that is left out runs when the gap ends, or with `gap="skip"` not at all; a face of a date
    that is left out has no run. A face that comes twice runs the first time, or with `fold="both"` twice.
    """
    first = _next_first_pass(faces, clock, after, gap)
    if fold == "first":
        return first
    second = _next_second_pass(faces, clock, after, first)
    return min(filter(None, (first, second)), default=None)


def _next_first_pass(faces: Faces, clock: ZoneClock, after: datetime, gap: Gap) -> datetime | None:
    """Once per face, at its first time. Later faces never run earlier, so the next face decides."""
    shown = clock.latest_face(after)
    while (face := faces.next_face(shown)) is not None:
        change = clock.change_near(face)
        if change is None or not change.removes(face):
            return clock.instant_near(face, change)
        if gap == "skip":
            shown = change.resumed - SECOND
        elif change.removes_date(face.date()):
            shown = face.replace(hour=23, minute=59, second=59)
        else:
            return change.at
    return None


def _next_second_pass(
    faces: Faces, clock: ZoneClock, after: datetime, limit: datetime | None
) -> datetime | None:
    """The first named face in the second pass of a fold, no later than `limit`."""
    for change in clock.changes(after - REACH, limit or after + REACH):
        if change.is_gap:
            continue
        shown = clock.face(after) if after >= change.at else change.resumed - SECOND
        face = faces.next_face(shown)
        if face is not None and change.repeats(face):
            return clock.instant_near(face, change) + (change.old - change.new)
    return None
