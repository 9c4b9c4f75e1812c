"""Add one task with few statements, and return all that a report about it needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron import migrations
from dcron.database import Database, is_refusal, lacks_tables
from dcron.errors import DatabaseError
from dcron.model import Definition, Node, Task
from dcron.schedule.effort import repeatable
from dcron.services import node_rules
from dcron.services.changes.task_writer import AddedTask, TaskWriter
from dcron.services.crontab import Crontab
from dcron.services.node_rules import FleetRules
from dcron.services.service import Service
from dcron.services.settings import ChosenZone, new_task_zone
from dcron.services.tasks import rows as task_rows
from dcron.services.tasks.rows import TaskRow
from dcron.services.tasks.tasks import COUNTED
from dcron.store.audit_log import Author
from dcron.store.planning import planning
from dcron.store.tasks import new_task_facts
from dcron.store.tasks.new_task_facts import NewTaskFacts


@dataclass(frozen=True)
class Addition:
    """A task that was added."""

    row: TaskRow
    now: datetime
    """When it was added."""
    same_minute: Sequence[Task]
    """Up to COUNTED tasks that are due in the minute of its first scheduled run, itself included."""
    fleet: Sequence[Node]
    """The living nodes."""


class Additions(Service):
    """Adds tasks to a crontab. What this depends on is read once, in one statement."""

    def __init__(self, database: Database, actor: str | Author) -> None:
        """Open the crontab; an empty database gets its tables. Raises DatabaseError."""
        self._facts = _read_facts(database)
        super().__init__(Crontab(database, actor, version=self._facts.version))

    def now(self) -> datetime:
        """Return the time of the database's clock at the start, in UTC."""
        return self._facts.now

    def new_task_zone(self, configured: str | None) -> ChosenZone:
        """Return the zone of a new task without one; `configured` is the config file's. Raises ZoneError."""
        return new_task_zone(self._facts.timezone, configured)

    def add(
        self,
        definition: Definition,
        *,
        once: bool = False,
        numbered: bool = False,
        since: datetime | None = None,
    ) -> Addition:
        """Add a task like `Crontab.add`, and return it with its surroundings."""
        added, same_minute, rules = self._add(definition, once, numbered, since)
        row = task_rows.of_added(added, self._facts.fleet, rules)
        return Addition(row, since or self._facts.now, same_minute, self._facts.fleet)

    @repeatable
    def _add(
        self, definition: Definition, once: bool, numbered: bool, since: datetime | None
    ) -> tuple[AddedTask, Sequence[Task], FleetRules]:
        with self.database.write() as connection:
            writer = TaskWriter(connection, self.database, self.author)
            added = writer.add_valid(definition, once=once, numbered=numbered, since=since)
            rules = node_rules.read(connection, self._facts.fleet)
            return added, planning.due_with(connection, added.task, added.first_run, COUNTED), rules


def _read_facts(database: Database) -> NewTaskFacts:
    try:
        with database.read_once() as connection:
            return new_task_facts.read(connection, database)
    except DatabaseError as error:
        if not (is_refusal(error) or lacks_tables(error)):
            raise
    migrations.prepare(database)  # it makes the tables, or says what is wrong with them
    with database.read_once() as connection:
        return new_task_facts.read(connection, database)
