"""Import the tasks of a crontab file: add new ones, change those that differ, and refuse invalid ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import Conflict, Refused, UsageError
from dcron.model import Definition, Task
from dcron.policy.ownership import Ownership
from dcron.presentation.humanize import first_few
from dcron.services import sources
from dcron.services.task_writer import NAMES_COMPARED, TaskWriter
from dcron.store import nodes, tasks
from dcron.validation import require_name, require_runnable, require_valid

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
    added: list[Definition] = []
    changes: list[tuple[Task, Task]] = []
    unchanged: list[Task] = []
    expired: list[str] = []
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
            if policy.has_ended(definition, writer.now):
                expired.append(definition.name)
            else:
                require_valid(definition, writer.now, task)
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
    )
    return imported, problems


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
    raise Refused(
        f"{len(unnamed):,} of the tasks name no account ({shown}), and {why}: an agent would run them as"
        " root. Say whose they are: --user NAME, or --user root"
    )
