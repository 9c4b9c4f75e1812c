"""The crontab as people use it. The command line and the TUI are thin faces over this service.

Every method is one transaction: it is done wholly or not at all, and a change says who made it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from dcron import migrations, policy
from dcron.database import Database
from dcron.errors import Conflict, NoCalendar, NotFound, Refused, ScheduleError, UsageError
from dcron.model import LAST_RUN, Block, Definition, Node, Run, RunState, Task, Trigger
from dcron.policy.dependencies import Graph
from dcron.schedule import repeatable
from dcron.services import dependency_rules, sources
from dcron.services.name_prefix import ENOUGH, only_one, whole
from dcron.store import (
    audit_log,
    dependencies,
    finishing,
    listings,
    name_prefix,
    nodes,
    output,
    planning,
    runs,
    skipping,
    tasks,
)
from dcron.store.output import Chunk
from dcron.store.runs import RunFilter
from dcron.store.search_terms import Term
from dcron.validation import require_name, require_runnable, require_text, require_valid

PAGE = 500
NAMES_COMPARED = 100_000
NAMES_SHOWN = 5
ENDED_NODES_SHOWN = timedelta(hours=24)


@dataclass(frozen=True)
class TaskView:
    """A line with what is known of its runs."""

    task: Task
    next_run: Run | None
    """The first run that waits; a calendar may yet exclude it."""
    last_run: Run | None
    alive: Sequence[Run]
    unserved: str | None = None
    """Why no living node can take the next run; None when one can, or there is none."""

    @property
    def next_run_at(self) -> datetime | None:
        """When the task runs next, calendars considered; None when it will not."""
        if self.next_run is None:
            return None
        run = self.next_run
        if run.blocked is Block.DELAY:
            return None  # it is counted from an end that is yet to come
        if run.trigger is not Trigger.SCHEDULE:
            return run.due_at
        try:
            if not policy.rules_of(self.task).has_calendars:
                return run.due_at
            wanted = policy.next_wanted(self.task, run.scheduled_for - policy.INSTANT)
        except UsageError:
            return None  # its calendar cannot be read; its turns are skipped for that
        return wanted and policy.due_at(self.task, wanted)

    @property
    def comes_at(self) -> datetime | None:
        """The same; None also while a pause holds back the run, so that something has to happen first."""
        held = self.next_run is not None and self.next_run.blocked is Block.PAUSED
        return None if held else self.next_run_at


@dataclass(frozen=True)
class Imported:
    """What an import did, or would do. Names are those of the crontab."""

    added: Sequence[str]
    changed: Sequence[str]
    unchanged: Sequence[str]
    changes: Sequence[tuple[Task, Task]] = ()
    """The changed tasks, before and after."""
    accounts: Mapping[str, str | None] = field(default_factory=dict)
    """By name, the account that each added or changed task runs as; None is the agent's own."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """By the name in the file, the name in the crontab where it is another."""
    expired: Sequence[str] = ()
    """Of those that are added or changed, the tasks whose last time has passed."""
    others: Mapping[str, Task] = field(default_factory=dict)
    """By the name in the file, the task of another source that has this name already."""

    def is_agreed(self, agreed: "Imported") -> bool:
        """Return whether this changes nothing but what that one showed."""
        shown = {(before.id, before.version): after.definition() for before, after in agreed.changes}
        return all(
            shown.get((before.id, before.version)) == after.definition() for before, after in self.changes
        )


class BadLines(UsageError):  # noqa: N818 - said as people say it, like the others
    """Lines that agents cannot run: what is wrong with each, by its name."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        """Tell all of them, a line each."""
        super().__init__("\n".join(f"{name}: {problem}" for name, problem in problems.items()))
        self.problems = problems


class NotAgreed(Conflict):
    """An import that would change tasks otherwise than was agreed."""

    def __init__(self, imported: Imported) -> None:
        """Keep what it would do."""
        super().__init__(
            "the crontab was changed meanwhile; repeat the import to see what it would change now"
        )
        self.imported = imported


class Crontab:
    """The shared crontab in one database."""

    def __init__(self, database: Database, actor: str, *, readonly: bool = False) -> None:
        """Act as `actor` on a database. Raises DatabaseError.

        The tables are made when it is empty; with `readonly` that is an error.
        """
        self.database = database
        self.actor = actor
        if readonly:
            migrations.require_made(database)
        else:
            migrations.prepare(database)

    def now(self) -> datetime:
        """What the database's clock says."""
        with self.database.read() as connection:
            return self.database.now(connection)

    # Lines ------------------------------------------------------------------------------------------

    @repeatable
    def add(self, line: Definition, *, once: bool = False, numbered: bool = False) -> Task:
        """Write a new line and plan its first run. Raises UsageError, or Refused when the name is taken.

        With `numbered`, a name that is taken becomes `name-2`, `name-3` and so on.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            if numbered:
                line = replace(line, name=self._free_name(connection, line.name))
            require_valid(line, now)
            dependency_rules.guard(connection, self.database, [(None, line)])
            return self._add(connection, line, now, once=once)

    def names(self, beginning: str, limit: int) -> list[str]:
        """The first names that begin so, in order."""
        with self.database.read() as connection:
            return name_prefix.beginning(connection, name_prefix.TASKS, beginning, limit)

    def get(self, name: str) -> Task:
        """Return the line of exactly this name. Raises NotFound, as NotWhole where it only begins names."""
        require_name(name)
        with self.database.read() as connection:
            if task := tasks.by_name(connection, name):
                return task
            whole("task", name, name_prefix.beginning(connection, name_prefix.TASKS, name, ENOUGH))
        raise _no_task(name)

    def find(self, name: str) -> Task:
        """Return the line of this name, or the only one that begins so. Raises NotFound or UsageError."""
        with self.database.read() as connection:
            return self._find(connection, name)

    def view(self, name: str) -> TaskView:
        """The line with its next, last and living runs. Raises NotFound."""
        with self.database.read() as connection:
            return self._views(connection, [self._find(connection, name)])[0]

    def views(
        self, *, paused: bool = False, failed: bool = False, order: str = "name", reverse: bool = False
    ) -> Iterator[TaskView]:
        """The lines that a list wants, by one of TASK_ORDERS; each page is a short transaction of its own."""
        terms = [Term(field) for field, wanted in (("failed", failed), ("paused", paused)) if wanted]
        with self.database.read() as connection:
            now = self.database.now(connection)
            ids = listings.task_ids(connection, terms, order, now, reverse=reverse)
        for start in range(0, len(ids), PAGE):
            wanted = ids[start : start + PAGE]
            with self.database.read() as connection:
                lines = {task.id: task for task in tasks.by_ids(connection, wanted)}
                found = [lines[task_id] for task_id in wanted if task_id in lines]
                views = self._views(connection, found)
            yield from views

    def tasks(self) -> Iterator[Task]:
        """All lines without their runs, in the order of names, read a page at a time."""
        after = ""
        while True:
            with self.database.read() as connection:
                lines = tasks.page(connection, after, PAGE)
            yield from lines
            if len(lines) < PAGE:
                return
            after = lines[-1].name

    def lines(self, task_ids: Collection[int]) -> dict[int, Task]:
        """The lines of these ids, as far as they are still there."""
        with self.database.read() as connection:
            return {task.id: task for task in tasks.by_ids(connection, task_ids)}

    def starting(self, minute: datetime, limit: int) -> list[Task]:
        """The lines whose next turns are due in this minute, `limit` at most."""
        with self.database.read() as connection:
            return tasks.by_ids(connection, planning.starting(connection, minute, limit))

    def around(self, task: Task) -> Mapping[str, Sequence[str]]:
        """What comes after what in all that hangs together with the line: for each name those before it."""
        with self.database.read() as connection:
            return dependencies.graph_around(connection, task.name)

    def edit(self, task: Task, changed: Mapping[str, Any]) -> Task:
        """Set fields of the line as it was read. Raises UsageError, Refused, or Conflict when it changed."""
        (edited,) = self.edit_all([(task, changed)])
        return edited

    @repeatable
    def edit_all(self, edits: Sequence[tuple[Task, Mapping[str, Any]]]) -> list[Task]:
        """Set fields of these lines as they were read. Raises UsageError, Refused or Conflict."""
        lines = {task.id: replace(task.definition(), **changed) for task, changed in edits}
        with self.database.write() as connection:
            now = self.database.now(connection)
            for task, _ in edits:
                require_valid(lines[task.id], now, task)
            dependency_rules.guard(connection, self.database, [(task, lines[task.id]) for task, _ in edits])
            locked = _locked(connection, [task for task, _ in edits])
            edited = {task.id: self._replace(connection, task, lines[task.id], now) for task in locked}
        return [edited[task.id] for task, _ in edits]

    @repeatable
    def remove(self, *lines: Task) -> None:
        """Take the lines out; what waits for them is skipped. Raises Refused or Conflict."""
        with self.database.write() as connection:
            dependency_rules.guard(connection, self.database, [(task, None) for task in lines])
            now = self.database.now(connection)
            going = {task.name for task in lines}
            for task in _locked(connection, lines):
                self._remove(connection, task, now, going)

    def pause(self, task: Task, reason: str | None = None, until: datetime | None = None) -> Task:
        """Let the line start nothing until it is resumed, or until `until`. Raises Refused or Conflict."""
        (paused,) = self.pause_all([(task, until)], reason)
        return paused

    @repeatable
    def pause_all(self, pauses: Sequence[tuple[Task, datetime | None]], reason: str | None) -> list[Task]:
        """Pause these lines, each until its own time, or until it is resumed. Raises Refused or Conflict."""
        if reason is not None:
            require_text("reason", reason)
        with self.database.write() as connection:
            now = self.database.now(connection)
            ends = {task.id: until for task, until in pauses}
            lines = _locked(connection, [task for task, _ in pauses])
            for task in lines:
                _require_pausable(task, ends[task.id], now)
            paused = {task.id: self._pause(connection, task, reason, ends[task.id], now) for task in lines}
        return [paused[task.id] for task, _ in pauses]

    def resume(self, task: Task) -> Task:
        """End the pause. What fell into it is recorded as skipped, in one row. Raises Refused or Conflict."""
        (resumed,) = self.resume_all([task])
        return resumed

    @repeatable
    def resume_all(self, lines: Sequence[Task]) -> list[Task]:
        """End the pauses of these lines. Raises Refused or Conflict."""
        with self.database.write() as connection:
            now = self.database.now(connection)
            if awake := next((task for task in lines if task.enabled), None):
                raise Refused(f"{awake.name} is not paused")
            resumed = {task.id: self._resume(connection, task, now) for task in _locked(connection, lines)}
        return [resumed[task.id] for task in lines]

    # Runs -------------------------------------------------------------------------------------------

    def run(self, task: Task, payload: str | None = None) -> Run:
        """Make a run that is due now, paused or not."""
        (run,) = self.run_all([task], payload)
        return run

    def run_all(self, lines: Sequence[Task], payload: str | None = None) -> list[Run]:
        """Make a run of each of these lines that is due now, paused or not."""
        for task in lines:
            require_runnable(task)
        if payload is not None:
            require_text("payload", payload)
        with self.database.write() as connection:
            now = self.database.now(connection)
            made = []
            for task in lines:
                run_id = planning.run_now(connection, task, now, payload)
                audit_log.record(connection, now, self.actor, "run", after=task, detail={"run": run_id})
                made.append(run_id)
            self.database.notify(connection)
            return list(filter(None, (runs.by_id(connection, run_id) for run_id in made)))

    def find_run(self, run_id: int) -> Run:
        """The run of this id. Raises NotFound."""
        with self.database.read() as connection:
            run = runs.by_id(connection, run_id) if run_id <= LAST_RUN else None
        if run is None:
            raise NotFound(f"there is no run {run_id}")
        return run

    def shares(self, run_id: int) -> list[Run]:
        """A run that somebody asked for; where it is for every node, as many. Raises NotFound."""
        run = self.find_run(run_id)
        if run.for_node is None:
            return [run]
        with self.database.read() as connection:
            return runs.shares(connection, run)

    def retry_of(self, run: Run) -> Run | None:
        """The attempt that follows this run, if there is one."""
        with self.database.read() as connection:
            return runs.retry_of(connection, run.id)

    def require_flow(self, flow: int) -> None:
        """Raise NotFound unless there are runs of this flow, or a run that may yet begin it."""
        with self.database.read() as connection:
            known = runs.newest(connection, RunFilter(flow=flow), 1) or runs.by_id(connection, flow)
        if not known:
            raise NotFound(f"there is no flow {flow}; `dcron runs` shows flows under TRIGGER")

    def runs(self, wanted: RunFilter, limit: int) -> list[Run]:
        """The runs wanted, the newest first."""
        with self.database.read() as connection:
            return runs.newest(connection, wanted, limit)

    def task_id(self, name: str) -> int:
        """The id under which the runs of this task stand, also of one that was removed. Raises NotFound."""
        with self.database.read() as connection:
            removed = self._removed_id(connection, name)
            return self._find(connection, name).id if removed is None else removed

    def whole_task_id(self, name: str) -> tuple[int, str]:
        """The same of exactly this name, and the name. Raises NotFound, as NotWhole for a beginning."""
        with self.database.read() as connection:
            removed = self._removed_id(connection, name)
        return (self.get(name).id if removed is None else removed), name

    def _removed_id(self, connection: Connection, name: str) -> int | None:
        removed = audit_log.last_of(connection, name)
        gone = removed and tasks.by_name(connection, name) is None
        return int(removed.task_id) if removed and gone else None

    def last_run(self, name: str) -> Run:
        """The latest run of the task that was started. Raises NotFound."""
        task_id = self.task_id(name)
        started = [RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.LOST, RunState.CANCELLED]
        for run in self.runs(RunFilter(task_id, started), limit=20):
            if run.started_at:
                return run
        raise NotFound(f"{name} has not run yet")

    def run_to_follow(self, name: str) -> Run:
        """The run to watch: one that lives, else one that is due, else the latest. Raises NotFound."""
        task_id = self.task_id(name)
        living = self.runs(RunFilter(task_id, [RunState.RUNNING, RunState.CLAIMED]), limit=1)
        if living:
            return living[0]
        waiting, now = self.runs(RunFilter(task_id, [RunState.WAITING]), limit=PAGE), self.now()
        due = [run for run in waiting if run.due_at <= now]
        return due[0] if due else self.last_run(name)

    def output(self, run_id: int, offset: int) -> list[Chunk]:
        """What the run printed from byte `offset` on, as far as it is known; a page of chunks."""
        with self.database.read() as connection:
            return output.read(connection, run_id, offset)

    def output_size(self, run_id: int) -> int:
        """How many bytes the run wrote, kept or not."""
        with self.database.read() as connection:
            return output.size(connection, run_id)

    @repeatable
    def cancel(self, run_id: int) -> Run:
        """End a waiting run, or ask the owner of a live one to stop it.

        Raises NotFound, or Refused when it is over.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            run = runs.by_id(connection, run_id)
            if run is None:
                raise NotFound(f"there is no run {run_id}")
            finishing.lock_lines(connection, {run.task_id: run.task})
            waiting = skipping.cancel(connection, run, now, self.actor)
            if not waiting and not runs.request_cancel(connection, run_id, self.actor):
                raise Refused(f"run {run_id} of {run.task} is over: {run.state}")
            if waiting:
                self._go_on_without(connection, run, now)
            self.database.notify(connection)
            cancelled = runs.by_id(connection, run_id)
        assert cancelled
        return cancelled

    def nodes(self) -> list[Node]:
        """The nodes that live, and those that ended within a day."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return nodes.listing(connection, now, ended_since=now - ENDED_NODES_SHOWN)

    # Files ------------------------------------------------------------------------------------------

    @repeatable
    def import_lines(
        self,
        lines: Sequence[Definition],
        source: str | None = None,
        *,
        prefix: str = "",
        adopt: bool = False,
        by_root: bool = False,
        agreed: Imported | None = None,
        dry_run: bool = False,
    ) -> Imported:
        """Add what is new and rewrite what differs, in one transaction; nothing is removed.

        Only tasks of this source are rewritten; with `adopt`, all of these names, and they become its own. A
        line whose name belongs to another source becomes a task with a name of its own. `prefix` is put
        before all names. `by_root` says that root imports. `agreed` holds the changes that may be made; with
        None all may be.

        Raises BadLines for lines that agents cannot run, Refused where a line from a source would run as
        root although it names no account, NotAgreed where it changes more than that. Then nothing is written.
        """
        self._compute_ahead(lines)
        with self.database.write() as connection, connection.begin_nested() as attempt:
            now = self.database.now(connection)
            matches = self._match(connection, lines, source, prefix, adopt=adopt)
            dependency_rules.guard(connection, self.database, ((each.task, each.line) for each in matches))
            imported, problems = self._import(connection, matches, source, now)
            if problems:
                raise BadLines(
                    {each.named: problems[each.line.name] for each in matches if each.line.name in problems}
                )
            if source:
                self._refuse_open_accounts(connection, imported, now, by_root=by_root)
            if agreed and not imported.is_agreed(agreed):
                raise NotAgreed(imported)
            if dry_run:
                attempt.rollback()
        return imported

    def _compute_ahead(self, lines: Sequence[Definition]) -> None:
        """Compute the lines' times, for the transaction to find them known."""
        now = self.now()
        for line in lines:
            with suppress(UsageError):  # the transaction says so
                require_valid(line, now)

    def export_lines(self) -> list[Definition]:
        """All lines but one-offs, in the order of names."""
        with self.database.read() as connection:
            return [task.definition() for task in tasks.every(connection) if not task.once]

    # ------------------------------------------------------------------------------------------------

    def _add(self, connection: Connection, line: Definition, now: datetime, *, once: bool = False) -> Task:
        try:
            with connection.begin_nested():
                task_id = tasks.add(connection, line, now, self.actor, once=once)
        except IntegrityError:
            if tasks.by_name(connection, line.name) is None:
                raise
            raise Refused(
                f"there is a task {line.name!r} already;"
                " choose another name with -n, or change it with `dcron set`"
            ) from None
        return self._settle(connection, task_id, now, "add", before=None)

    def _match(
        self,
        connection: Connection,
        lines: Sequence[Definition],
        source: str | None,
        prefix: str,
        *,
        adopt: bool,
    ) -> list[sources.Match]:
        for line in lines:
            require_name(prefix + line.name)
        named = tasks.by_names(connection, [prefix + line.name for line in lines])
        own = tasks.of_source(connection, source) if source else []
        own += [task for task in named if adopt or (task.source is None and source is None)]
        ids = {task.id for task in own}
        others = {task.name: task for task in named if task.id not in ids}

        def all_names() -> list[str]:
            return name_prefix.beginning(connection, name_prefix.TASKS, "", NAMES_COMPARED)

        return sources.match(lines, own, others, all_names, prefix)

    def _import(
        self, connection: Connection, matches: Sequence[sources.Match], source: str | None, now: datetime
    ) -> tuple[Imported, dict[str, str]]:
        """Write the lines; what was done, and by name why others cannot be written."""
        added: list[Definition] = []
        changes: list[tuple[Task, Task]] = []
        unchanged: list[Task] = []
        expired: list[str] = []
        problems: dict[str, str] = {}
        for line, task in ((each.line, each.task) for each in matches):
            try:
                if task and task.definition() == line:
                    unchanged.append(task)
                    continue
                require_runnable(line)
                if policy.has_ended(line, now):
                    expired.append(line.name)
                else:
                    require_valid(line, now, task)
                if task is None:
                    added.append(line)
                elif not problems:
                    changes.append((task, self._replace(connection, task, line, now)))
            except UsageError as error:
                problems[line.name] = str(error)
        if not problems:
            problems = self._add_many(connection, added, now, source)
            # Also of tasks that are adopted.
            tasks.set_source(
                connection,
                [task.id for each in matches if (task := each.task) and task is not each.other],
                source,
            )
        written = [*added, *(after for _, after in changes)]
        imported = Imported(
            [line.name for line in added],
            [after.name for _, after in changes],
            [task.name for task in unchanged],
            changes,
            {line.name: line.user for line in written},
            {each.named: each.line.name for each in matches if each.named != each.line.name},
            expired,
            {each.named: each.other for each in matches if each.other},
        )
        return imported, problems

    def _refuse_open_accounts(
        self, connection: Connection, imported: Imported, now: datetime, *, by_root: bool
    ) -> None:
        """Raise Refused where tasks name no account and would run as root."""
        unnamed = [name for name, user in imported.accounts.items() if user is None]
        if not unnamed:
            return
        roots = sorted({node.name for node in nodes.living(connection, now) if node.may_be_root})
        if not roots and not by_root:
            return
        which = ", ".join(unnamed[:NAMES_SHOWN]) + (", …" if len(unnamed) > NAMES_SHOWN else "")
        why = f"the agent of {roots[0]} may run as root" if roots else "root imports them"
        raise Refused(
            f"{len(unnamed):,} of the tasks name no account ({which}), and {why}: an agent would run them as"
            " root. Say whose they are: --user NAME, or --user root"
        )

    def _add_many(
        self, connection: Connection, lines: Sequence[Definition], now: datetime, source: str | None
    ) -> dict[str, str]:
        """Write new lines with their first runs, a page at a time; what is wrong with which of them."""
        problems: dict[str, str] = {}
        for start in range(0, len(lines), PAGE):
            try:
                with connection.begin_nested():
                    page = lines[start : start + PAGE]
                    written = tasks.add_many(connection, page, now, self.actor, source)
            except IntegrityError:
                raise Conflict("a task of one of these names was added meanwhile; repeat it") from None
            for task in written:
                try:
                    self._require_calendars(task, now, before=None)
                except UsageError as error:
                    problems[task.name] = str(error)
            planning.plan_new(connection, [task for task in written if task.name not in problems], now)
            audit_log.record_added(connection, now, self.actor, written)
        # Only now: a line may come after one that is written further down.
        graphs: dict[str, Graph] = {}
        for line in lines:
            if line.name not in problems and (
                problem := dependency_rules.problem_of(connection, line, graphs)
            ):
                problems[line.name] = problem
        self.database.notify(connection)
        return problems

    def _remove(self, connection: Connection, task: Task, now: datetime, going: Collection[str] = ()) -> None:
        """Take the line out. `going` are the names of all lines that leave in this transaction."""
        dependency_rules.require_nothing_behind(connection, task, going)
        if not tasks.remove(connection, task):
            raise self._conflict(connection, task)
        planning.withdraw(connection, task, now, f"no longer wanted: removed by {self.actor}")
        audit_log.record(connection, now, self.actor, "rm", before=task)

    def _free_name(self, connection: Connection, name: str) -> str:
        """The name itself, or with the lowest number that makes it one of its own."""
        taken = set(
            name_prefix.beginning(
                connection, name_prefix.TASKS, name[: sources.NUMBERED_NAME], limit=NAMES_COMPARED
            )
        )
        return sources.free_name(name, taken)

    def _replace(self, connection: Connection, task: Task, line: Definition, now: datetime) -> Task:
        if line == task.definition():
            return task
        try:
            with connection.begin_nested():
                replaced = tasks.replace(connection, task, line, now, self.actor)
        except IntegrityError:
            if line.name == task.name or tasks.by_name(connection, line.name) is None:
                raise
            raise Refused(f"there is a task {line.name!r} already; choose another name") from None
        if not replaced:
            raise self._conflict(connection, task)
        if line.name != task.name or line.every_node:
            dependency_rules.require_nothing_behind(connection, task)
        return self._settle(connection, task.id, now, "set", before=task)

    def _pause(
        self, connection: Connection, task: Task, reason: str | None, until: datetime | None, now: datetime
    ) -> Task:
        values: dict[str, Any] = {"enabled": False, "paused_reason": reason, "paused_by": self.actor}
        values |= {"paused_at": now, "paused_until": until}
        return self._change(connection, task, values, now, "pause")

    def _resume(self, connection: Connection, task: Task, now: datetime) -> Task:
        columns = ("paused_reason", "paused_by", "paused_at", "paused_until")
        resumed = self._change(connection, task, {"enabled": True, **dict.fromkeys(columns)}, now, "resume")
        planning.record_paused_span(connection, task, now)
        return resumed

    def _change(
        self, connection: Connection, task: Task, values: dict[str, Any], now: datetime, action: str
    ) -> Task:
        if not tasks.change(connection, task, values, now, self.actor):
            raise self._conflict(connection, task)
        detail = {"reason": values.get("paused_reason")} if action == "pause" else None
        return self._settle(connection, task.id, now, action, before=task, detail=detail)

    def _settle(
        self,
        connection: Connection,
        task_id: int,
        now: datetime,
        action: str,
        *,
        before: Task | None,
        detail: Mapping[str, Any] | None = None,
    ) -> Task:
        """Plan the line as it now is, and note who changed it."""
        task = tasks.by_id(connection, task_id)
        assert task
        # Not at a pause: a line whose calendars are gone, or that waits for itself, may rest.
        is_changed = before is None or before.definition() != task.definition()
        if is_changed:
            self._require_calendars(task, now, before)
        planning.plan(connection, task, now)
        if is_changed and (problem := dependency_rules.problem_of(connection, task)):
            raise ScheduleError(problem)
        audit_log.record(connection, now, self.actor, action, before=before, after=task, detail=detail)
        self.database.notify(connection)
        settled = tasks.by_id(connection, task_id)
        assert settled
        return settled

    def _require_calendars(self, task: Task, now: datetime, before: Task | None) -> None:
        """The calendars a line names have to be there, and to leave it something to run."""
        for name, content in (
            (task.except_calendar, task.except_content),
            (task.only_calendar, task.only_content),
        ):
            if name and content is None:
                raise NoCalendar(f"there is no calendar {name!r}; `dcron calendar list` shows what there is")
        if (task.except_calendar or task.only_calendar) and not policy.has_ended(task, now):
            as_before = before and _calendars_of(before) == _calendars_of(task)
            try:
                require_valid(task, now, before if as_before else None)
            except ScheduleError as error:  # it fires without its calendars: that was asked before
                named = " and ".join(filter(None, (task.except_calendar, task.only_calendar)))
                raise ScheduleError(f"{error} (calendar {named})") from None

    def _go_on_without(self, connection: Connection, run: Run, now: datetime) -> None:
        """A cancelled turn does not end its line: the next takes its place; what comes after it is told."""
        task = tasks.by_id(connection, run.task_id)
        if run.trigger is Trigger.SCHEDULE and task and task.planned_version == task.version:
            planning.plan_after(connection, task, max(now, run.scheduled_for))
        if run.flow is not None or run.trigger is Trigger.RETRY:
            step = dependencies.Step(run.id, run.task, run.flow, run.scheduled_for)
            dependencies.step_ended(connection, self.database, step, RunState.CANCELLED, now)

    def _find(self, connection: Connection, name: str) -> Task:
        require_name(name)
        if task := tasks.by_name(connection, name):
            return task
        meant = only_one(name, name_prefix.beginning(connection, name_prefix.TASKS, name, ENOUGH))
        task = tasks.by_name(connection, meant) if meant else None
        if task is None:
            raise _no_task(name)
        return task

    def _views(self, connection: Connection, lines: Sequence[Task]) -> list[TaskView]:
        ids = [task.id for task in lines]
        if not ids:
            return []
        following = runs.next_turns(connection, ids)
        last = runs.last_started(connection, ids)
        living = runs.alive(connection, ids)
        fleet = nodes.living(connection, self.database.now(connection))
        return [
            TaskView(
                task,
                following.get(task.id),
                last.get(task.id),
                living.get(task.id, ()),
                _unserved(following.get(task.id), fleet),
            )
            for task in lines
        ]

    def _conflict(self, connection: Connection, task: Task) -> Conflict | NotFound:
        last = audit_log.last_of_line(connection, task.id)
        who = (
            f"{audit_log.changed_by(last.actor, last.login)}, {last.at:%Y-%m-%dT%H:%M:%SZ}, {last.action}"
            if last
            else "somebody"
        )
        if tasks.by_id(connection, task.id) is None:
            return NotFound(f"{task.name} was removed meanwhile ({who})")
        return Conflict(f"{task.name} was changed meanwhile ({who}); look at it again and repeat your change")


def _locked(connection: Connection, lines: Sequence[Task]) -> list[Task]:
    """Lock the lines if there are several; return them in the order in which they are to be written."""
    if len(lines) > 1:
        tasks.lock(connection, [task.id for task in lines])
    return sorted(lines, key=lambda task: task.id)


def _require_pausable(task: Task, until: datetime | None, now: datetime) -> None:
    if not task.enabled:
        because = f": {task.paused_reason}" if task.paused_reason else ""
        raise Refused(f"{task.name} is paused already{because}")
    if until and until <= now:
        raise UsageError(f"--until {until:%Y-%m-%dT%H:%M:%SZ} has passed; give a time to come")


def _no_task(name: str) -> NotFound:
    return NotFound(f"there is no task {name!r}; `dcron list` shows what there is")


def _calendars_of(line: Definition) -> tuple[str | None, str | None]:
    return line.except_calendar, line.only_calendar


def _unserved(run: Run | None, fleet: Sequence[Node]) -> str | None:
    lane = run and policy.read_lane(run.lane)
    return policy.why_unschedulable(lane, fleet) if lane else None
