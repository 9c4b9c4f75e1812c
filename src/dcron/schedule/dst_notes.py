"""What clock changes do to a schedule, in words."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import islice

from dcron.schedule.cron import Cron
from dcron.schedule.dst_rules import Faces
from dcron.schedule.fields import HOUR
from dcron.schedule.kinds import At, Every, Schedule, Timed, next_instant
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rules import Rules
from dcron.schedule.transitions import DAY, REACH, SECOND, Transition, ZoneClock

_SHOWN = 3
"""Faces written out in a sentence; of more there are dots."""
_AFTERWARDS = timedelta(days=7)
"""How long after a gap a run is still told of what was lost: until a weekly one comes again."""


def note(schedule: Schedule, clock: ZoneClock, instant: datetime, rules: Rules) -> str | None:
    """What a clock change does to the occurrence at this instant; None nearly always."""
    told = [
        _gap_note(form, clock, change, instant, rules) or _fold_note(form, clock, change, instant, rules)
        for change in clock.changes(instant - _AFTERWARDS, instant + REACH)
        for form in schedule.timed_forms
    ]
    return "; ".join(dict.fromkeys(filter(None, told))) or None


def is_about(at: datetime, change: Transition) -> bool:
    """Whether it is this change that a note on an occurrence at this instant tells of."""
    return change.at - REACH < at <= change.at + _AFTERWARDS


def _gap_note(
    form: Timed, clock: ZoneClock, change: Transition, instant: datetime, rules: Rules
) -> str | None:
    """On the run in place of faces that are left out, or on the first one after faces that are lost."""
    if not change.is_gap or instant < change.at:
        return None
    if instant != change.at and not _loses(form, change, rules):
        return None
    if next_instant(form, clock, change.at - SECOND, rules) != instant:
        return None
    return effect(form, clock, change, rules)


def _fold_note(
    form: Timed, clock: ZoneClock, change: Transition, instant: datetime, rules: Rules
) -> str | None:
    """On an occurrence whose face comes twice."""
    face = clock.face(instant)
    if not change.repeats(face) or next_instant(form, clock, instant - SECOND, rules) != instant:
        return None
    faces = faces_of(form)
    if faces is None or faces.next_face(face - SECOND) != face:
        return None
    zone_name = instant.astimezone(clock.zone).tzname()
    if _runs_once(form, rules):
        return f"{_twice([face])}: runs the first time only, {zone_name}"
    return f"{_twice([face])}: this is the {'first' if instant < change.at else 'second'}, {zone_name}"


def effect(form: Timed, clock: ZoneClock, change: Transition, rules: Rules) -> str | None:
    """What this change does to a form; None when the form names none of the faces concerned."""
    faces = list(islice(touched(form, change, rules), _SHOWN + 1))
    if not faces:
        return None
    if not change.is_gap:
        return (
            f"{_twice(faces)}: {'only the first time runs' if _runs_once(form, rules) else 'both times run'}"
        )
    missing = f"{_some(faces)} {'does' if len(faces) == 1 else 'do'} not exist on {faces[0]:%Y-%m-%d}"
    if _is_interval(form):
        return f"{missing}: left out"
    if _loses(form, change, rules):
        return f"{missing}: no run"
    day = f"{change.resumed:%Y-%m-%d} " if change.resumed.date() != faces[0].date() else ""
    once = "runs" if len(faces) == 1 else "one run"
    return f"{missing}: {once} at {day}{_time(change.resumed)}, {change.at.astimezone(clock.zone).tzname()}"


def touched(form: Timed, change: Transition, rules: Rules) -> Iterator[datetime]:
    """The faces of a form that this change leaves out or shows twice; only those that would run."""
    faces = faces_of(form)
    if faces is None or not in_window(form, change, rules):
        return
    runs_late = change.is_gap and not _loses(form, change, rules)
    first, end = change.faces
    after = first - SECOND
    while (face := faces.next_face(after)) is not None and face < end:
        day = (change.resumed if runs_late else face).date()
        if rules.excluded_by(day) is None:
            yield face
            after = face
        else:
            after = datetime.combine(face, time.max)  # the rest of the date is excluded too


def in_window(form: Timed, change: Transition, rules: Rules) -> bool:
    """Whether anything may run at the change."""
    ends = [rules.not_after, form.until if isinstance(form, Recurrence) else None]
    begun = rules.not_before is None or rules.not_before <= change.at
    return begun and all(end is None or change.at <= end for end in ends)


def _loses(form: Timed, change: Transition, rules: Rules) -> bool:
    """Whether the faces that this gap leaves out are not made up for when it ends."""
    whole_date = change.new - change.old >= DAY
    return _is_interval(form) or rules.gap == "skip" or whole_date


def faces_of(form: Timed) -> Faces | None:
    """The form as faces on the wall; None if it counts in real time or names an instant."""
    if isinstance(form, Every) or (isinstance(form, At) and not form.is_face):
        return None
    return form


def is_steady(schedule: Schedule) -> bool:
    """Whether it goes on through the hours whatever the clock on the wall shows (`*/5 * * * *`)."""
    return all(
        isinstance(form, Every)
        or (isinstance(form, Cron) and form.is_interval and form.hour.numbers >= HOUR.full)
        for form in schedule.timed_forms
    )


def _is_interval(form: Timed) -> bool:
    return isinstance(form, Cron) and form.is_interval


def _runs_once(form: Timed, rules: Rules) -> bool:
    """Whether a face that comes twice runs at its first time only."""
    return not _is_interval(form) and (rules.fold == "first" or isinstance(form, At))


def _twice(faces: list[datetime]) -> str:
    return f"{_some(faces)} {'comes' if len(faces) == 1 else 'come'} twice on {faces[0]:%Y-%m-%d}"


def _some(faces: list[datetime]) -> str:
    shown = ", ".join(map(_time, faces[:_SHOWN]))
    return f"{shown}, …" if len(faces) > _SHOWN else shown


def _time(face: datetime) -> str:
    return f"{face:%H:%M:%S}" if face.second else f"{face:%H:%M}"
