"""Import the tasks of a crontab file: add new ones, change those that differ, and refuse invalid ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from dcron.errors import Conflict, DcronError, NeverFires, Refused, UsageError
from dcron.model import Definition, Ownership, Pause, Task
from dcron.policy.starting import occurrences
from dcron.policy.validation import require_name, require_runnable, require_valid
from dcron.presentation.humanize import first_few
from dcron.services.changes import matching
from dcron.services.changes.changeset import Change, Rules, TaskChange, redefined, write_changes
from dcron.services.changes.matching import Match
from dcron.services.changes.task_writer import NAMES_COMPARED
from dcron.services.service import Service
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import rows as tasks

NAMES_SHOWN = 5


@dataclass(frozen=True)
class Imported:
    """What an import did, or would do. Names are those of the crontab."""

    added: Sequence[str]
    changed: Sequence[str]
    unchanged: Sequence[str]
    changes: Sequence[TaskChange] = ()
    """The changes of those that were changed."""
    accounts: Mapping[str, str | None] = field(default_factory=dict)
    """By name, the account that each added or changed task runs as; None is the agent's own."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """By the name in the file, the name in the crontab where the two differ."""
    expired: Sequence[str] = ()
    """The added or changed tasks whose last time has passed."""
    others: Mapping[str, Task] = field(default_factory=dict)
    """By the name in the file, the task of another source that already has this name."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """By name, why a task is imported paused: a schedule that never fires."""
    left: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By source of these tasks, the names of its other tasks, which stay in the crontab."""

    def is_agreed(self, agreed: "Imported") -> bool:
        """Return whether this import makes no change that `agreed` did not show."""
        return _effects(self).items() <= _effects(agreed).items()


class InvalidTasks(UsageError):  # noqa: N818 - named like the other errors
    """Tasks of a file that agents cannot run: what is wrong with each, by its name in the file."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        """Show all problems, one on each line."""
        super().__init__("\n".join(f"{name}: {problem}" for name, problem in problems.items()))
        self.problems = problems


class NotAgreed(Conflict):
    """The import would make changes that the person did not agree to."""

    def __init__(self, imported: Imported) -> None:
        """Keep what the import would do."""
        super().__init__(
            "the crontab was changed meanwhile; repeat the import to see what it would change now"
        )
        self.imported = imported


def _effects(imported: Imported) -> dict[tuple[int, int], Definition]:
    """Return what tasks become, by their ids and versions."""
    found = ((each.before, each.after) for each in imported.changes)
    return {(before.id, before.version): after.definition() for before, after in found if before and after}


class Import:
    """One import of definitions from a source, in one transaction."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        source: str | None,
        definitions: Sequence[Definition],
        prefix: str,
        *,
        adopt: bool,
    ) -> None:
        """Match the definitions with the tasks of the crontab. Raises UsageError for their names."""
        self._connection = connection
        self._service = service
        self._source = source
        self._now = service.database.now(connection)
        self._own = tasks.of_source(connection, source) if source else []
        self._matches = self._match(definitions, prefix, adopt=adopt)
        self._expired: list[str] = []
        self._never: dict[str, str] = {}

    def _match(self, definitions: Sequence[Definition], prefix: str, *, adopt: bool) -> list[Match]:
        for definition in definitions:
            require_name(prefix + definition.name)
        named = tasks.by_names(self._connection, [prefix + definition.name for definition in definitions])
        adopted = [task for task in named if adopt or (task.source is None and self._source is None)]
        own = [*self._own, *adopted]
        ids = {task.id for task in own}
        others = {task.name: task for task in named if task.id not in ids}

        def all_names() -> list[str]:
            return tasks.names_beginning(self._connection, "", NAMES_COMPARED)

        return matching.match(definitions, own, others, all_names, prefix)

    def write(self) -> Imported:
        """Write the tasks. Raises InvalidTasks, Refused, and Conflict where others change one just now."""
        left = self._left_in_crontab()
        changes: list[Change] = []
        problems: dict[str, DcronError] = {}
        for each in self._matches:
            try:
                changes += self._compare(each)
            except UsageError as error:
                problems[each.definition.name] = error
        if not problems:
            written = write_changes(self._connection, self._service, changes, Rules(is_checked=False))
            for overtaken in written.overtaken:
                raise overtaken.error
            problems = written.problems
        if problems:
            found = ((each.named, problems.get(each.definition.name)) for each in self._matches)
            raise InvalidTasks({name: str(problem) for name, problem in found if problem})
        return self._imported([each for each in written.done if each.redefines], left)

    def _compare(self, match: Match) -> Iterator[Change]:
        """Yield the change that makes the task what the file says, if it differs. Raises UsageError."""
        definition, task = match.definition, match.task
        if task is not None and task.definition() == definition:
            if task is not match.other and task.ownership() != Ownership(self._source):
                yield redefined(task, definition, Ownership(self._source))
            return
        require_runnable(definition)
        pause = None
        if occurrences.has_ended(definition, self._now):
            self._expired.append(definition.name)
        else:
            try:
                require_valid(definition, self._now, task)
            except NeverFires as error:  # people disable lines so: `0 0 31 2 *`
                self._never[definition.name] = str(error)
                pause = Pause(str(error), self._service.actor)
        yield redefined(task, definition, Ownership(self._source), pause)

    def _imported(self, done: Sequence[TaskChange], left: Mapping[str, Sequence[str]]) -> Imported:
        written = {each.name for each in done}
        return Imported(
            [each.name for each in done if not each.before],
            [each.name for each in done if each.before],
            [each.task.name for each in self._matches if each.task and each.definition.name not in written],
            [each for each in done if each.before],
            {each.name: each.after.user for each in done if each.after},
            {each.named: name for each in self._matches if (name := each.definition.name) != each.named},
            self._expired,
            {each.named: each.other for each in self._matches if each.other},
            self._never,
            left,
        )

    def _left_in_crontab(self) -> dict[str, list[str]]:
        """Return the tasks of this source that are not in the file, and those of sources it adopts from."""
        taken = {each.task.id for each in self._matches if each.task}
        adopted = (each.task.source for each in self._matches if each.task and each.task is not each.other)
        known = {self._source: self._own}
        for name in adopted:
            if name not in known:
                known[name] = tasks.of_source(self._connection, name) if name else []
        left = {name: [task.name for task in of if task.id not in taken] for name, of in known.items()}
        return {name: names for name, names in left.items() if name and names}

    def refuse_open_accounts(self, imported: Imported, *, by_root: bool) -> None:
        """Raise Refused where tasks name no account and would run as root.

        `by_root` says that root imports them.
        """
        unnamed = [name for name, user in imported.accounts.items() if user is None]
        if not unnamed:
            return
        living = nodes.living(self._connection, self._now)
        roots = sorted({node.name for node in living if node.may_be_root})
        if not roots and not by_root:
            return
        why = f"the agent of {roots[0]} may run as root" if roots else "root imports them"
        shown = first_few(unnamed, NAMES_SHOWN)
        verb = "names" if len(unnamed) == 1 else "name"
        raise Refused(
            f"{len(unnamed):,} of the tasks {verb} no account ({shown}), and {why}:"
            " an agent would run what names none as root. Say whose they are: --user NAME, or --user root"
        )


def problems_of(definitions: Sequence[Definition], now: datetime) -> dict[str, str]:
    """Return, by name, why agents cannot run these tasks, as far as each of them says it alone."""
    found = {}
    for definition in definitions:
        try:
            if not occurrences.has_ended(definition, now):
                require_valid(definition, now)
        except NeverFires:
            pass
        except UsageError as error:
            found[definition.name] = str(error)
    return found
