"""Import the tasks of a crontab file: add new ones, change those that differ, and refuse invalid ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from dcron.errors import Conflict, NeverFires, Refused, UsageError
from dcron.model import Definition, Task
from dcron.policy.ownership import Ownership
from dcron.policy.starting import occurrences
from dcron.policy.validation import require_name, require_runnable, require_valid
from dcron.presentation.humanize import first_few
from dcron.services.changes import matching as sources
from dcron.services.changes.writing import NAMES_COMPARED, TaskWriter
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import rows as tasks

NAMES_SHOWN = 5


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
        shown = {(before.id, before.version): after.definition() for before, after in agreed.changes}
        return all(
            shown.get((before.id, before.version)) == after.definition() for before, after in self.changes
        )


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


def match(
    connection: Connection, definitions: Sequence[Definition], source: str | None, prefix: str, *, adopt: bool
) -> list[sources.Match]:
    """Return for each definition of a file which task of the crontab it is, if any."""
    for definition in definitions:
        require_name(prefix + definition.name)
    named = tasks.by_names(connection, [prefix + definition.name for definition in definitions])
    own = tasks.of_source(connection, source) if source else []
    own += [task for task in named if adopt or (task.source is None and source is None)]
    ids = {task.id for task in own}
    others = {task.name: task for task in named if task.id not in ids}

    def all_names() -> list[str]:
        return tasks.names_beginning(connection, "", NAMES_COMPARED)

    return sources.match(definitions, own, others, all_names, prefix)


def write(
    writer: TaskWriter, matches: Sequence[sources.Match], source: str | None
) -> tuple[Imported, dict[str, str]]:
    """Write the tasks; return what was done, and by name why other tasks cannot be written."""
    left = _left_in_crontab(writer.connection, matches, source)
    added: list[Definition] = []
    changes: list[tuple[Task, Task]] = []
    unchanged: list[Task] = []
    expired: list[str] = []
    never: dict[str, str] = {}
    problems: dict[str, str] = {}
    adopted: list[Task] = []
    ownership = Ownership(source)
    for definition, task, other in ((each.definition, each.task, each.other) for each in matches):
        try:
            if task and task.definition() == definition:
                unchanged.append(task)
                if task is not other:
                    adopted.append(task)
                continue
            require_runnable(definition)
            if occurrences.has_ended(definition, writer.now):
                expired.append(definition.name)
            else:
                try:
                    require_valid(definition, writer.now, task)
                except NeverFires as error:  # people disable lines so: `0 0 31 2 *`
                    never[definition.name] = str(error)
            if task is None:
                added.append(definition)
            elif not problems:
                changes.append((task, writer.replace(task, definition, ownership)))
        except UsageError as error:
            problems[definition.name] = str(error)
    if not problems:
        problems = writer.add_many(added, lambda _: ownership)
        for task in adopted:
            writer.set_ownership(task, ownership)
        for task in tasks.by_names(writer.connection, list(never)):
            if task.enabled:
                writer.pause(task, never[task.name], None)
    written = [*added, *(after for _, after in changes)]
    imported = Imported(
        [definition.name for definition in added],
        [after.name for _, after in changes],
        [task.name for task in unchanged],
        changes,
        {definition.name: definition.user for definition in written},
        {each.named: each.definition.name for each in matches if each.named != each.definition.name},
        expired,
        {each.named: each.other for each in matches if each.other},
        never,
        left,
    )
    return imported, problems


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


def _left_in_crontab(
    connection: Connection, matches: Sequence[sources.Match], source: str | None
) -> dict[str, list[str]]:
    """Return the tasks of this source that are not in the file, and those of sources that it adopts from."""
    taken = {each.task.id for each in matches if each.task}
    adopted = [each.task.source for each in matches if each.task and each.task is not each.other]
    found = {
        name: [task.name for task in tasks.of_source(connection, name) if task.id not in taken]
        for name in dict.fromkeys([source, *adopted])
        if name
    }
    return {name: left for name, left in found.items() if left}


def by_file_name(matches: Sequence[sources.Match], problems: Mapping[str, str]) -> dict[str, str]:
    """Return the problems by the tasks' names in the file."""
    found = ((each.named, problems.get(each.definition.name)) for each in matches)
    return {name: problem for name, problem in found if problem}


def refuse_open_accounts(writer: TaskWriter, imported: Imported, *, by_root: bool) -> None:
    """Raise Refused where tasks name no account and would run as root.

    `by_root` says that root imports them.
    """
    unnamed = [name for name, user in imported.accounts.items() if user is None]
    if not unnamed:
        return
    living = nodes.living(writer.connection, writer.now)
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
