"""Examine the crontab, its nodes, its database and this machine."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection

from dcron import migrations
from dcron.database import Database, FileCondition
from dcron.database.files import file_system
from dcron.errors import SchemaVersionError
from dcron.model import NodeState
from dcron.policy.statistics import Totals, day_of
from dcron.presentation.doctor import Finding
from dcron.services import node_rules
from dcron.services.doctor import database, fleet, host, maintenance, policies, tasks
from dcron.store.alerts import undeliverable
from dcron.store.nodes import outages
from dcron.store.nodes import rows as nodes
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import figures as cluster_figures
from dcron.store.statistics.figures import ClusterFigures
from dcron.store.tasks import kept as kept_tasks
from dcron.store.tasks import rows as task_rows
from dcron.store.tasks import used_channels

_LOOK_BACK = timedelta(days=7)
"""How far back durations are judged."""
_OUTAGES_BACK = timedelta(days=90)
"""How far back outages of the database count."""
MOST_OWNED = 10_000
"""Most owned tasks that one examination checks for drift."""


class Doctor:
    """Looks for what needs an operator's attention. It changes nothing."""

    def __init__(self, database: Database, spool: Path | None = None) -> None:
        """Examine this database, whose tables may be of any version, and an agent's spool on this machine."""
        self._database = database
        self._spool = spool

    def examine(self, *, deep: bool = False) -> list[Finding]:
        """Return all findings. With `deep`, read a SQLite file whole. Raises DatabaseError."""
        found = list(self._of_database(deep=deep))
        problem = self._of_tables()
        found += [problem] if problem else self._of_crontab()
        if unit := host.unit_properties():
            found += host.examine(unit)
        return found

    def _of_database(self, *, deep: bool) -> Iterator[Finding]:
        with self._database.read() as connection:
            condition = self._database.condition(connection)
            if isinstance(condition, FileCondition):
                yield from database.examine_file(condition)
                if deep and (damage := self._database.damage(connection)):
                    yield Finding("integrity", [str(condition.path)], damage=damage)
                return
            age = self._database.oldest_transaction(connection) or 0.0
            protection = self._database.protection(connection)
        yield from database.examine_server(condition, age)
        # The trial of the locks needs a transaction that writes.
        if not condition.is_standby and (problem := self._database.why_unsuitable()):
            yield Finding("not-postgres", problem=problem)
        if self._database.pooler == "detected":
            yield Finding("pooler")
        if protection:
            yield from database.unsafe_connection(protection)

    def _of_tables(self) -> Finding | None:
        """Return the finding about the version of the tables; None if dcron can use them."""
        version = migrations.current_version(self._database)
        if version is None:
            problem, advice = "the database has no tables of dcron", "type `dcron db init`"
            return Finding("schema", problem=problem, advice=advice)
        try:
            migrations.require_version(self._database, version)
        except SchemaVersionError as error:
            return Finding("schema", problem=error, advice="`dcron db --help` shows how to upgrade")
        return None

    def _of_crontab(self) -> Iterator[Finding]:
        with self._database.read() as connection:
            figures = cluster_figures.read(connection, self._database)
            living = nodes.listing(connection, figures.now)
            unserved = (
                cluster_figures.unserved_names(connection, living, figures.now)
                if figures.tasks_unserved
                else []
            )
            errors = maintenance.errors(connection, figures.maintenance)
            overdue = maintenance.overdue(connection, figures.now)
            unstarted = task_rows.by_ids(connection, tasks.never_started(figures))
            seconds = tasks.slowest(_totals(connection, figures))
            slowest = task_rows.by_ids(connection, list(seconds))
            users = used_channels.read(connection)
            failing = undeliverable.since(connection)
            owned = task_rows.applied(connection, MOST_OWNED)
            rules = node_rules.read(connection, living)
            without = node_rules.without_policy(connection, living)
            judged = list(islice(task_rows.every(connection), MOST_OWNED)) if rules or without else []
            seen = outages.since(connection, figures.now - _OUTAGES_BACK)
            kept = kept_tasks.names(connection, MOST_OWNED) if self._spool else []
        yield from fleet.examine(figures, living, unserved)
        yield from policies.examine(
            living, without, policies.of_root(judged), policies.refused(rules, judged)
        )
        yield from fleet.examine_leases(living, seen)
        if running := [node for node in living if node.state(figures.now) is not NodeState.LATE]:
            yield from fleet.examine_channels(users, running)
            yield from maintenance.examine_watch(figures.maintenance, figures.now)
        yield from fleet.examine_failing(failing)
        yield from fleet.examine_differences(living)
        yield from maintenance.examine(figures.maintenance, errors, figures.now)
        yield from maintenance.examine_history(overdue, figures.now)
        yield from tasks.examine(figures)
        yield from tasks.examine_unstarted(unstarted, figures.now)
        yield from tasks.examine_owned(owned)
        yield from tasks.examine_durations(slowest, seconds, figures.now)
        if self._spool and self._spool.is_dir():
            yield from host.examine_spool(self._spool, file_system(self._spool), kept)


def _totals(connection: Connection, figures: ClusterFigures) -> dict[int, Totals]:
    """Return the totals of each task's last days that are summed up."""
    totals: dict[int, Totals] = {}
    for row in daily_statistics.read(connection, day_of(figures.now - _LOOK_BACK), day_of(figures.now)):
        totals.setdefault(row.task_id, Totals()).merge(row.totals)
    return totals
