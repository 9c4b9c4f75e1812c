"""The pages of real agents, also while their database hangs."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dcron.services.fleet import Fleet
from tests.support.cluster import AgentProcess, Cluster, cluster, wait_for
from tests.support.databases import PostgresServer, new_database
from tests.support.scraping import get

FROZEN = 12
"""Seconds that the database hangs: as long as it takes to see that each page answers, several times."""


def port_of(agent: AgentProcess) -> int:
    """Return the port that the agent has chosen, once it listens."""
    wait_for(lambda: _listening(agent), 30, "the agent listens")
    return int(_listening(agent)[0])


def _listening(agent: AgentProcess) -> list[str]:
    return re.findall(r"monitor: listens on 127\.0\.0\.1:(\d+)", agent.log.read_text())


@pytest.fixture
def frozen_team(tmp_path: Path) -> Iterator[tuple[Cluster, PostgresServer]]:
    """A crontab on a Postgres server of its own, for a test that freezes it."""
    server = PostgresServer(durable=False)
    try:
        with new_database(server.url, tmp_path) as url, cluster(url, tmp_path) as made:
            yield made, server
    finally:
        server.thaw()
        server.close()


def test_an_agent_serves_its_pages(team: Cluster) -> None:
    agent = team.start_agent("web-1", "--monitor", "0", lease=20)
    port = port_of(agent)
    assert get(port, "/healthz").status == 200
    wait_for(lambda: get(port, "/readyz").status == 200, 30, "the node is ready")
    team.add("tick", "@every 1s", "true")
    wait_for(
        lambda: get(port, "/metrics").samples()["dcron_runs_finished_total{state=succeeded}"] >= 2,
        30,
        "runs end",
    )
    [node] = team.alive()
    Fleet(team.crontab).drain(node.id)
    wait_for(lambda: get(port, "/readyz").text == "it drains\n", 30, "the node drains")
    assert get(port, "/cluster").samples()["dcron_nodes{state=draining}"] == 1


def test_a_database_that_hangs_makes_no_agent_ill(frozen_team: tuple[Cluster, PostgresServer]) -> None:
    team, server = frozen_team
    agent = team.start_agent("web-1", "--monitor", "0", lease=60)
    port = port_of(agent)
    wait_for(lambda: get(port, "/readyz").status == 200, 30, "the node is ready")
    assert get(port, "/cluster").samples()["dcron_cluster_up"] == 1
    server.freeze()
    ages, answered = [], 0
    began = time.monotonic()
    while time.monotonic() < began + FROZEN:
        assert get(port, "/healthz").text == "ok\n"
        assert get(port, "/metrics").status == 200
        ages.append(get(port, "/cluster").samples()["dcron_cluster_age_seconds"])
        answered += 1
        time.sleep(1)
    server.thaw()
    assert answered > 1
    assert ages == sorted(ages)
    assert ages[-1] >= ages[0] + FROZEN - 8
    wait_for(lambda: get(port, "/readyz").status == 200, 60, "the node is ready again")


def test_an_agent_waits_for_its_database_in_good_health(team: Cluster) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"postgresql://cron@127.0.0.1:{silent.getsockname()[1]}/cron?sslmode=disable&connect_timeout=2"
        port = port_of(team.start_agent("web-1", "--monitor", "0", environment={"DCRON_DB": url}))
        assert get(port, "/healthz").status == 200
        assert get(port, "/readyz").status == 503
        assert get(port, "/cluster").samples()["dcron_cluster_up"] == 0
