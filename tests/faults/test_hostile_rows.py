"""One hostile row stops nothing but itself: every column of every table, under a running agent."""

import os
import time

import pytest
from sqlalchemy import Table, text
from typer.testing import CliRunner

from dcron.cli.app import app
from dcron.errors import DcronError
from dcron.model import RunState
from dcron.monitoring.cluster import ClusterPage
from dcron.services.fleet import Fleet
from tests.faults.hostile import TABLES, VICTIM, Attack
from tests.support.cluster import AgentProcess, Cluster, wait_for

READING = (
    ("list",),
    ("list", "--json"),
    ("nodes", "--json"),
    ("runs", "-n", "500", "--json"),
    ("dead", "--json"),
    ("why", VICTIM),
    ("view", VICTIM),
    ("queue", "list", "--json"),
    ("calendar", "list", "--json"),
    ("export",),
    ("preview", "--all"),
    ("lint",),
    ("info",),
    ("stats", "--since", "400d", "--json"),
    ("stats", "--by", "queue", "--since", "400d"),
    ("logs", VICTIM),
)


def innocent_starts(team: Cluster) -> int:
    return len(team.ledger())


def require_unharmed(team: Cluster, agent: AgentProcess, node_id: str, within: float = 240) -> None:
    """Fail unless the agent lives as the node it was, and goes on starting the innocent task."""
    before = innocent_starts(team)
    wait_for(
        lambda: innocent_starts(team) >= before + 3 or agent.process.poll() is not None,
        within,
        "the innocent task is started three times more",
    )
    assert agent.process.poll() is None, agent.log.read_text()[-3000:]
    with team.database.read() as connection:
        own = text("SELECT died_how FROM nodes WHERE id = :id")
        assert connection.execute(own, {"id": node_id}).one().died_how is None, agent.log.read_text()[-3000:]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.long
def test_no_value_of_any_column_stops_an_agent_or_a_list(
    team: Cluster, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = team.start_agent("web-1", lease=20, slots=16)
    team.wait_until_alive(1, within=60)
    [node] = team.alive()
    team.add(VICTIM, "@every 1h", "true", queue="hostile")
    team.add("listener", "@on hostile", "true", queue="hostile", max_running=None)
    Fleet(team.crontab).set_queue("hostile", 8)
    team.add("innocent", "@every 1s", team.entry("ran"))
    wait_for(lambda: innocent_starts(team) >= 1, 20, "the innocent task runs")
    attack = Attack(team.database, every=1 if "DCRON_TEST_ALL_VARIANTS" in os.environ else 6)
    attack.on(table)
    assert attack.taken > 0
    require_unharmed(team, agent, node.id)
    time.sleep(2)
    require_unharmed(team, agent, node.id)
    page = ClusterPage(team.database)
    assert b"dcron_cluster_up 1.0" in page.page("").body
    page.close()
    monkeypatch.setenv("DCRON_DB", team.url)
    for words in READING:
        result = CliRunner().invoke(app, words)
        if not isinstance(result.exception, SystemExit | DcronError | None):
            raise AssertionError(f"dcron {words}") from result.exception
    assert "bug in dcron" not in agent.log.read_text()
    assert not [run for run in team.runs(RunState.LOST) if run.task == "innocent"]
