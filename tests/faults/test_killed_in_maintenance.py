"""Agents are killed while they prune: the next one goes on within a minute, and keeps what has to stay.

`tests/contract/test_maintenance_deaths.py` does it at every statement of every job, without processes.
"""

from pathlib import Path

import pytest
from sqlalchemy import select

from dcron.schema.tables import maintenance_jobs
from dcron.store.retention.walk import JOB
from tests.faults.campaign import pruning
from tests.faults.campaign.stage import Stage, stage
from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

KILLED_AT = (("web-2", "prune:2"), ("web-3", "prune:5"))
"""Statements of a transaction: after the hold is renewed, and while rows are deleted."""
WITHIN = 60.0 + 30.0
"""Seconds until another node goes on, with the time that a busy machine takes to start it."""


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_another_node_prunes_on_within_a_minute(database: str, tmp_path: Path) -> None:
    server = PostgresServer() if database == "postgres" else None
    try:
        with stage(server, 7, 0, tmp_path) as played:
            pruning.prepare(played, 300)
            played.program = ("-m", "tests.faults.campaign.dying")
            for name, where in KILLED_AT:
                played.environments[name] = {"DIE_AT": where}
                assert played.start(name).wait(WITHIN) == -9, f"{name} does not kill itself"
            played.program = ("-m", "dcron")
            played.start("web-1")
            wait_for(lambda: _is_held_by("web-1", played), WITHIN, "web-1 prunes")
            wait_for(lambda: _is_held_by(None, played), WITHIN, "web-1 has pruned")
            for living in played.living():
                living.terminate()
                living.wait(60)
            for act in played.at_the_end:
                act()
            assert played.problems == []
            assert played.figures["pruned"] == "300 of 300"
    finally:
        if server:
            server.close()


def _is_held_by(node: str | None, played: Stage) -> bool:
    """Return whether the job is held by this node; None: it is done."""
    with played.cluster.database.read() as connection:
        row = connection.execute(select(maintenance_jobs).where(maintenance_jobs.c.name == JOB)).one()
    if node is None:
        return row.holder is None and "stages" not in row.position
    return row.holder is not None and row.holder.startswith(node)
