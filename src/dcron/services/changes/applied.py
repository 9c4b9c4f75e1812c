"""Apply a source: make the tasks that it owns what its files say, and touch no other.

`check` compares, and writes nothing. `apply` writes what was compared, unless another user was faster.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron.crontabfile.options import suggestion
from dcron.errors import Conflict, CrontabFileError, Refused, UsageError
from dcron.model import DEFINITION_FIELDS, Definition, Ownership, Task
from dcron.policy.history import RecordedChange
from dcron.policy.ownership import (
    IMPORT,
    Decision,
    InSource,
    Owner,
    Permissions,
    decide,
    digest,
    is_drifted,
    owner_of,
)
from dcron.policy.starting import occurrences
from dcron.policy.validation import require_runnable, require_valid
from dcron.schedule.effort import repeatable
from dcron.services import node_rules
from dcron.services.changes.changeset import Change, Rules, write_changes
from dcron.services.changes.source_plan import FieldEdit, HandEdit, Plan, PlannedTask
from dcron.services.changes.transactions import in_transactions, rest, upstream_of
from dcron.services.service import Service
from dcron.sources import Place, SourceTask
from dcron.store import changes
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import calendars
from dcron.store.tasks import rows as tasks

LEAST_REMOVED = 10
"""This many tasks may be removed at once, however few the source has."""
REMOVED_PART = 5
"""Of a larger source, one task in this many may be removed at once."""
SEARCHED = 100
"""Changes of a task that are searched for who changed it by hand, and for how it was applied."""
PROBLEMS_SHOWN = 50
"""Tasks that an error lists."""
SOURCES_SHOWN = 10
"""Sources that a warning lists."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,99}")


@dataclass(frozen=True)
class Request:
    """The options of an apply."""

    source: str
    allowed: Permissions = field(default_factory=Permissions)
    max_removed: int | None = None
    """The most tasks to remove. None: a fifth of the source's tasks, or LEAST_REMOVED if that is more."""
    force: bool = False
    """Remove more than that."""


class Apply(Service):
    """Compares a source with the crontab, and applies it."""

    def sources(self) -> list[str]:
        """Return the names of the sources that own tasks, in order."""
        with self.database.read() as connection:
            return [name for name in tasks.sources(connection) if not name.startswith(IMPORT)]

    @repeatable
    def check(self, declared: Sequence[SourceTask], request: Request) -> Plan:
        """Return what applying would do. Raises CrontabFileError for tasks that agents cannot run."""
        require_source(request.source)
        with self.database.snapshot() as connection:
            return _Comparison(
                connection, self.database.now(connection), declared, request, self.actor
            ).plan()

    def apply(
        self, plan: Plan, *, dry_run: bool = False, written: Callable[[int], object] = lambda number: None
    ) -> None:
        """Make all changes of the plan: in one transaction, or in several if they are many.

        `written` is called after each transaction with the number of its changes. With `dry_run`, the changes
        are tried and rolled back, unless they are too many for one transaction.

        Raises Conflict if changes by hand would be lost, or if another user was faster; Refused if a change
        is not allowed; CrontabFileError for tasks that the crontab cannot take.
        """
        if conflicts := plan.of(Decision.CONFLICT):
            raise Conflict("\n".join(_problems(conflicts)))
        if (refused := plan.of(Decision.REFUSE)) or plan.obstacle:
            raise Refused("\n".join([*_problems(refused), *filter(None, [plan.obstacle])]))
        places = {each.name: each.place for each in plan.writes if each.place}
        pages = in_transactions([each.wanted(plan.source) for each in plan.writes])
        if dry_run and len(pages) > 1:
            return
        for number, page in enumerate(pages):
            if number:
                rest()
            self._write(page, places, dry_run=dry_run)
            written(len(page))

    @repeatable
    def _write(self, page: Sequence[Change], places: Mapping[str, Place], *, dry_run: bool) -> None:
        """Make these changes in one transaction."""
        with self.database.write(keeps=not dry_run) as connection, connection.begin_nested() as attempt:
            written = write_changes(connection, self, page, RULES)
            if written.overtaken:
                raise Conflict("\n".join(str(each.error) for each in written.overtaken))
            mistakes = {
                name: str(error)
                for name, error in written.problems.items()
                if name in places and isinstance(error, UsageError)
            }
            _raise_in_places(places, mistakes)
            if written.problems:
                raise Refused("\n".join(str(error) for error in written.problems.values()))
            if dry_run:
                attempt.rollback()


def _is_as_compared(present: Task, change: Change) -> bool:
    """Return whether the task is as it was at the check; whether it is paused does not count."""
    compared = change.before
    assert compared
    return digest(present) == digest(compared) and present.ownership() == compared.ownership()


RULES = Rules(is_current=_is_as_compared, is_checked=False, asks_owner=False)


def require_source(name: str) -> None:
    """Raise UsageError unless a source can have this name."""
    if name.startswith(IMPORT):
        raise UsageError(f"--source: names with {IMPORT} belong to `dcron import`; choose another one")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--source {name!r:.60}: give 1 to 100 letters, digits and . _ - / : @ +, such as shop/cron"
        )


class _Comparison:
    """Compares the tasks of a source with the crontab, in one transaction that reads."""

    def __init__(
        self,
        connection: Connection,
        now: datetime,
        declared: Sequence[SourceTask],
        request: Request,
        actor: str,
    ) -> None:
        self._connection = connection
        self._now = now
        self._declared = declared
        self._request = request
        self._actor = actor
        self._own = {task.name: task for task in tasks.of_source(connection, request.source)}
        self._names = {each.definition.name for each in declared}
        asked = self._names | {each.was for each in declared if each.was}
        others = tasks.by_names(connection, sorted(asked - self._own.keys()))
        self._live = self._own | {task.name: task for task in others}
        self._renamed_by_hand = dict(self._find_renamed_by_hand(asked))
        used = {name for each in declared for name in _calendars_of(each.definition)}
        self._calendars = calendars.contents(connection, used) if used else {}

    def plan(self) -> Plan:
        """Return what applying would do. Raises CrontabFileError."""
        present = [self._present(each) for each in self._declared]
        kept = {each.before.id for each in present if each.before}
        gone = [self._missing(task) for task in self._own.values() if task.id not in kept]
        gone.sort(key=lambda each: each.name)
        planned = [self._with_edit(each) for each in (*present, *gone)]
        expired = self._require_valid(planned)
        return Plan(
            self._request.source,
            planned,
            self._obstacle(planned),
            self._warning(),
            expired,
            self._refused(planned),
        )

    def _refused(self, planned: Sequence[PlannedTask]) -> list[tuple[PlannedTask, str]]:
        """Return the tasks to write that no living node accepts, and why."""
        rules = node_rules.read(self._connection, nodes.living(self._connection, self._now))
        written = [(each, each.after) for each in planned if each.after and each.decision.writes]
        return [(each, why) for each, after in written if (why := rules.why_refused(after))]

    def _present(self, declared: SourceTask) -> PlannedTask:
        """Compare a task that the source has."""
        definition, allowed = declared.definition, self._request.allowed
        before = self._live.get(definition.name) or self._renamed(declared) or self._moved_away(declared)
        owner = owner_of(before, self._request.source, allowed)
        is_same = before is not None and before.definition() == definition
        decision = decide(
            owner,
            InSource.SAME if is_same else InSource.DIFFERENT,
            drifted=before is not None and is_drifted(before),
            allowed=allowed,
        )
        after = before if is_same and decision is Decision.KEEP else self._task(before, definition)
        return PlannedTask(decision, before, after, owner, declared.place)

    def _renamed(self, declared: SourceTask) -> Task | None:
        """Return the task under its earlier name, if this source may rename it."""
        task = self._live.get(declared.was or "")
        if task is None or task.name in self._names:
            return None
        allowed = self._request.allowed
        owner = owner_of(task, self._request.source, allowed)
        may = owner in (Owner.OURS, Owner.HANDED_OVER) or (owner is Owner.UNOWNED and allowed.adopt)
        return task if may else None

    def _moved_away(self, declared: SourceTask) -> Task | None:
        """Return the task that a person has renamed. Added again, it would run under both names."""
        found = self._renamed_by_hand
        return found.get(declared.definition.name) or found.get(declared.was or "")

    def _find_renamed_by_hand(self, asked: Collection[str]) -> Iterator[tuple[str, Task]]:
        """Yield the names under which this source was applied, with tasks of its own that lost them."""
        for task in self._own.values():
            if task.name in self._names or not is_drifted(task):
                continue
            applied = _hand_edit(self._connection, task).applied
            if applied and applied.name in asked and applied.name not in self._live:
                yield applied.name, task

    def _missing(self, task: Task) -> PlannedTask:
        """Decide on a task of the source that its files do not have."""
        drifted = is_drifted(task)
        decision = decide(Owner.OURS, InSource.MISSING, drifted=drifted, allowed=self._request.allowed)
        return PlannedTask(decision, task, None, Owner.OURS)

    def _task(self, before: Task | None, definition: Definition) -> Task:
        """Return the task as it would be, with its calendars."""
        values: dict[str, Any] = dict(vars(definition))
        values |= Ownership(self._request.source, digest(definition))._asdict()
        values["except_content"] = self._calendars.get(definition.except_calendar or "")
        values["only_content"] = self._calendars.get(definition.only_calendar or "")
        if before:
            return replace(before, **values)
        absent: dict[str, Any] = dict.fromkeys(each.name for each in fields(Task))
        about = {"id": 0, "version": 0, "planned_version": 0, "enabled": True, "once": False}
        return Task(**{**absent, **about, **values, "changed_at": self._now, "changed_by": self._actor})

    def _with_edit(self, planned: PlannedTask) -> PlannedTask:
        """Return a conflict with who made the change by hand."""
        if planned.decision is not Decision.CONFLICT or planned.before is None:
            return planned
        return replace(planned, edit=_hand_edit(self._connection, planned.before))

    def _obstacle(self, planned: Sequence[PlannedTask]) -> str | None:
        removed = sum(each.decision is Decision.REMOVE for each in planned)
        if not removed or self._request.force:
            return None
        if not self._declared:
            return f"the files have no tasks: --prune would remove all of its {removed:,}; --force does it"
        most = self._request.max_removed
        if most is None:
            most = max(LEAST_REMOVED, len(self._own) // REMOVED_PART)
        if removed <= most:
            return None
        return (
            f"--prune would remove {removed:,} of the {len(self._own):,} tasks of {self._request.source},"
            f" and {most:,} are allowed; --max-removed {removed} or --force does it"
        )

    def _warning(self) -> str | None:
        """Return a warning if no task belongs to the source that --take-from names."""
        name = self._request.allowed.take_from
        if name is None or any(task.source == name for task in self._live.values()):
            return None
        known = tasks.sources(self._connection)
        if name in known:
            return None
        return f"no task belongs to the source {name}; {_listed(known)}{suggestion(name, known)}"

    def _require_valid(self, planned: Sequence[PlannedTask]) -> list[PlannedTask]:
        """Raise CrontabFileError for tasks that agents cannot run; return those that will never run."""
        problems: dict[str, str] = {}
        expired = []
        written = [each for each in planned if each.after and each.decision.writes]
        known = self._upstream_names(planned, written)
        for each in written:
            assert each.after
            try:
                require_runnable(each.after)
                self._require_others(each.after, known)
                if occurrences.has_ended(each.after, self._now):
                    expired.append(each)
                else:
                    require_valid(each.after, self._now, each.before)
            except UsageError as error:
                problems[each.name] = str(error)
        _raise_in_places({each.name: each.place for each in written}, problems)
        return expired

    def _upstream_names(self, planned: Sequence[PlannedTask], written: Sequence[PlannedTask]) -> set[str]:
        """Return which of the tasks that these wait for there will be."""
        asked = {name for each in written for name in upstream_of(each.after)} - self._names
        ends = [each for each in planned if each.change.kind == "renamed" or each.decision is Decision.REMOVE]
        gone = {each.before.name for each in ends if each.before}
        found = {task.name for task in tasks.by_names(self._connection, sorted(asked))}
        return self._names | (found - gone)

    def _require_others(self, task: Task, known: set[str]) -> None:
        """Raise UsageError for a calendar or an upstream task that is missing."""
        for name in _calendars_of(task):
            if name not in self._calendars:
                raise UsageError(f"there is no calendar {name!r}; `dcron calendar list` shows what there is")
        for name in upstream_of(task):
            if name not in known:
                raise UsageError(
                    f"@after {name}: there is no such task, and the source has none of this name"
                )


def _listed(sources: Sequence[str]) -> str:
    """Return a text that lists the sources that have tasks."""
    if not sources:
        return "no source has tasks"
    more = f" and {len(sources) - SOURCES_SHOWN:,} more" if len(sources) > SOURCES_SHOWN else ""
    return f"the sources are {', '.join(sources[:SOURCES_SHOWN])}{more}"


def _calendars_of(definition: Definition) -> list[str]:
    return [name for name in (definition.except_calendar, definition.only_calendar) if name]


def _hand_edit(connection: Connection, task: Task) -> HandEdit:
    """Return who changed the task since it was applied, and how it was applied."""
    found = changes.latest_of_task(connection, task.id, SEARCHED)
    states = (state.definition for each in found if (state := each.state_after))
    applied = next((each for each in states if digest(each) == task.applied), None)
    last = next((each for each in found if set(each.fields) & set(DEFINITION_FIELDS)), None)
    edits = tuple(_field_edits(task.definition(), applied, found)) if applied else ()
    if last and (not (state := last.state_after) or state.definition != task.definition()):
        last = None
    return HandEdit(last, applied, edits)


def _field_edits(
    present: Definition, applied: Definition, found: Sequence[RecordedChange]
) -> Iterator[FieldEdit]:
    """Yield each field that differs from the applied task, with its last change (`found`: latest first)."""
    recorded = next((state.definition for each in found if (state := each.state_after)), None)
    for name in DEFINITION_FIELDS:
        values = getattr(applied, name), getattr(present, name)
        if values[0] == values[1]:
            continue
        last = next((each for each in found if name in each.fields), None)
        is_known = getattr(recorded, name, None) == values[1]
        yield FieldEdit(name, *values, last if is_known else None)


def _problems(planned: Sequence[PlannedTask]) -> Iterator[str]:
    """Yield why each of the first PROBLEMS_SHOWN tasks cannot be applied, and how many more there are."""
    for each in planned[:PROBLEMS_SHOWN]:
        yield each.problem
    if len(planned) > PROBLEMS_SHOWN:
        yield f"and {len(planned) - PROBLEMS_SHOWN:,} more"


def _raise_in_places(places: Mapping[str, Place | None], problems: Mapping[str, str]) -> None:
    """Raise CrontabFileError for tasks of the source that are not valid, in the order of its lines."""
    found = sorted((places[name] or Place("", 0), name, problem) for name, problem in problems.items())
    if found:
        raise CrontabFileError("\n".join(f"{place}: {name}: {problem}" for place, name, problem in found))
