"""What clock changes do to a schedule, in words."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from dcron.schedule.changes import SECOND, Change, Clock
from dcron.schedule.cron import Cron
from dcron.schedule.forms import At, Every, Schedule, Timed, next_instant
from dcron.schedule.instants import Faces
from dcron.schedule.rules import Rules

_SHOWN = 3
"""Faces written out in a sentence; of more there are dots."""


def note(schedule: Schedule, clock: Clock, instant: datetime, rules: Rules) -> str | None:
    """What a clock change does to the occurrence at this instant; None nearly always."""
    change = clock.change_near(clock.face(instant))
    if change is None:
        return None
    for form in schedule.timed_forms:
        sentence = _gap_note(form, clock, change, instant, rules) or _fold_note(
            form, clock, change, instant, rules
        )
        if sentence is not None:
            return sentence
    return None


def _gap_note(form: Timed, clock: Clock, change: Change, instant: datetime, rules: Rules) -> str | None:
    """On the run in place of faces that are left out, or on an interval's first one after them."""
    before = change.at - SECOND
    if not change.is_gap or instant < change.at or next_instant(form, clock, before, rules) != instant:
        return None
    if not _is_interval(form) and instant != change.at:
        return None
    return effect(form, clock, change, rules)


def _fold_note(form: Timed, clock: Clock, change: Change, instant: datetime, rules: Rules) -> str | None:
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


def effect(form: Timed, clock: Clock, change: Change, rules: Rules) -> str | None:
    """What this change does to a form; None when the form names none of the faces concerned."""
    faces = list(islice(touched(form, change), _SHOWN + 1))
    if not faces:
        return None
    if not change.is_gap:
        return (
            f"{_twice(faces)}: {'only the first time runs' if _runs_once(form, rules) else 'both times run'}"
        )
    missing = f"{_some(faces)} {'does' if len(faces) == 1 else 'do'} not exist on {faces[0]:%Y-%m-%d}"
    if _is_interval(form):
        return f"{missing}: left out"
    if rules.gap == "skip" or all(change.removes_date(face.date()) for face in faces):
        return f"{missing}: no run"
    day = f"{change.resumed:%Y-%m-%d} " if change.resumed.date() != faces[0].date() else ""
    once = "runs" if len(faces) == 1 else "one run"
    return f"{missing}: {once} at {day}{_time(change.resumed)}, {change.at.astimezone(clock.zone).tzname()}"


def touched(form: Timed, change: Change) -> Iterator[datetime]:
    """The faces of a form that this change leaves out or shows twice."""
    faces = faces_of(form)
    first, end = change.faces
    face = faces.next_face(first - SECOND) if faces is not None else None
    while faces is not None and face is not None and face < end:
        yield face
        face = faces.next_face(face)


def faces_of(form: Timed) -> Faces | None:
    """The form as faces on the wall; None if it counts in real time or names an instant."""
    if isinstance(form, Every) or (isinstance(form, At) and not form.is_face):
        return None
    return form


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
