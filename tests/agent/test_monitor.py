"""The pages of an agent: `/metrics`, `/healthz` and `/readyz` from memory, `/cluster` from the database."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import event

from dcron.agent import counters as agent_counters
from dcron.agent import monitor
from dcron.agent.counters import Counters
from dcron.agent.health import MonitoredAgent
from dcron.agent.monitor import NodeMetrics, health_page, readiness_page, serve
from dcron.database import Database, open_database
from dcron.errors import DatabaseError
from dcron.monitoring import cluster
from dcron.monitoring.address import ListenAddress
from dcron.monitoring.cluster import ClusterPage
from dcron.monitoring.server import MonitorServer
from dcron.services.crontab import Crontab
from dcron.store.statistics import figures as cluster_figures
from tests.support.databases import template_database
from tests.support.node import HandNode, World
from tests.support.patience import PATIENCE
from tests.support.scraping import families_of, get, samples_of
from tests.support.stage import definition

ANY_PORT = ListenAddress("127.0.0.1", 0)


def agent_of(node: HandNode) -> MonitoredAgent:
    """An agent whose present node a test steps by hand."""
    session = SimpleNamespace(
        node=node.context,
        dispatcher=node.dispatcher,
        maintenance=node.maintenance,
        why_not_ready=lambda: None,
    )
    found = SimpleNamespace(settings=node.settings, counters=node.counters, session=session, patience=10.0)
    return cast("MonitoredAgent", found)


def figures_of(node: HandNode) -> dict[str, float]:
    return samples_of(NodeMetrics(agent_of(node)).page("").body.decode())


# /metrics -----------------------------------------------------------------------------------------------


def test_runs_are_counted_from_their_starts_to_their_ends(world: World) -> None:
    for name in "abc":
        world.add(name)
    node = world.node()
    world.clock.forward(minutes=1, seconds=2)
    good, bad, _ = node.dispatch()
    node.warden.end(good)
    node.warden.end(bad, exit_code=1)
    node.receiver.receive(0.0)
    before = figures_of(node)
    assert (before["dcron_node_slots_used"], before["dcron_spool_undelivered"]) == (1, 2)
    node.recorder.step()
    node.heartbeat.step()
    found = figures_of(node)
    assert found["dcron_runs_started_total{trigger=schedule}"] == 3
    assert found["dcron_runs_finished_total{state=succeeded}"] == 1
    assert found["dcron_runs_finished_total{state=failed}"] == 1
    assert found["dcron_run_start_lateness_seconds_bucket{le=1.0}"] == 0
    assert found["dcron_run_start_lateness_seconds_bucket{le=2.5}"] == 3
    assert found["dcron_run_start_lateness_seconds_sum"] == pytest.approx(6)
    assert found["dcron_run_duration_seconds_count"] == 2
    assert (found["dcron_node_slots_used"], found["dcron_spool_undelivered"]) == (1, 0)
    assert found["dcron_node_lease_left_seconds"] == node.settings.lease
    for step in ("look", "claim", "finish", "beat"):
        assert found[f"dcron_database_seconds_count{{step={step}}}"] >= 1, step
    assert "dcron_node_clock_offset_seconds" in found


def test_the_page_is_valid_in_both_formats_and_bounded(world: World) -> None:
    metrics = NodeMetrics(agent_of(world.node()))
    page = metrics.page("application/openmetrics-text; version=1.0.0")
    assert page.content_type.startswith("application/openmetrics-text")
    families = families_of(page.body.decode())
    assert all(family.documentation for family in families)
    assert sum(len(family.samples) for family in families) < 90
    assert metrics.page("").content_type.startswith("text/plain")


def test_the_size_of_the_spool_is_that_of_its_files(world: World, tmp_path: Path) -> None:
    node = world.node()
    spool = tmp_path / "a-spool"
    object.__setattr__(node.settings, "spool", spool)
    (spool / node.id).mkdir(parents=True)
    (spool / node.id / "7.0").write_bytes(b"x" * 1000)
    assert figures_of(node)["dcron_spool_bytes"] == 1000


def test_a_spool_that_is_slow_to_read_is_read_rarely(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now, reads = [0.0], [0]

    def read(_: Path) -> int:
        now[0] += 0.5
        reads[0] += 1
        return reads[0]

    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(monitor, "_bytes_below", read)
    metrics = NodeMetrics(agent_of(world.node()))
    for _ in range(49):
        assert samples_of(metrics.page("").body.decode())["dcron_spool_bytes"] == 1
        now[0] += 1
    now[0] += 1
    assert samples_of(metrics.page("").body.decode())["dcron_spool_bytes"] == 2


@pytest.mark.slow
def test_memory_alone_answers_all_pages_but_cluster(world: World) -> None:
    node = world.node()
    node.lease.clock = time.monotonic  # its own asks the database
    sent: list[str] = []
    event.listen(world.database.engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    with served(node, world.database) as port:
        for path in ("/metrics", "/healthz", "/readyz"):
            assert get(port, path).status == 200
    assert sent == []


# /healthz and /readyz -----------------------------------------------------------------------------------


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the loops, which a test moves."""
    at = [1000.0]
    monkeypatch.setattr(agent_counters, "time", SimpleNamespace(monotonic=lambda: at[0]))
    return at


def health(counters: Counters, patience: float = 10, quick_waits: float = 0.0) -> tuple[int, str]:
    session = SimpleNamespace(maintenance=SimpleNamespace(quick_waits=quick_waits))
    agent = SimpleNamespace(counters=counters, patience=patience, session=session)
    page = health_page(cast("MonitoredAgent", agent))
    return page.status, page.body.decode()


def test_an_agent_that_does_not_look_for_alerts_is_unhealthy() -> None:
    assert health(Counters(), quick_waits=90.0) == (200, "ok\n")
    late = "the maintenance job watch has been due for 100s: alerts are late\n"
    assert health(Counters(), quick_waits=100.0) == (503, late)


def test_an_agent_is_healthy_while_its_vital_loops_go_on(seconds: list[float]) -> None:
    counters = Counters()
    assert health(counters)[0] == 200, "none of them runs yet"
    for loop in counters.loops:
        loop.turns()
    # The steps of its maintenance jobs hang all the time: that is no reason to restart it.
    counters.heartbeat.pauses(300)
    seconds[0] += 119
    assert health(counters)[0] == 200
    counters.recorder.turns()
    seconds[0] += 2
    assert health(counters) == (503, "no step for 120s: dispatcher, receiver\n")
    seconds[0] += 100
    counters.dispatcher.turns()
    counters.receiver.ends()
    assert health(counters)[0] == 200, "the pause of the heartbeat is not over"
    seconds[0] += 290
    assert "heartbeat" in health(counters)[1]


def test_a_longer_patience_with_the_database_is_no_illness(seconds: list[float]) -> None:
    counters = Counters()
    counters.dispatcher.turns()
    seconds[0] += 130
    assert health(counters)[0] == 503
    assert health(counters, patience=20)[0] == 200


def test_an_agent_is_ready_once_its_node_is(world: World) -> None:
    agent = agent_of(world.node())
    assert readiness_page(agent).status == 200
    cast("Any", agent).session.why_not_ready = lambda: "it drains"
    assert (readiness_page(agent).status, readiness_page(agent).body) == (503, b"it drains\n")
    cast("Any", agent).session = None
    assert readiness_page(agent).body == b"it is not registered\n"


# /cluster -----------------------------------------------------------------------------------------------


@contextmanager
def served(node: HandNode, database: Database) -> Iterator[int]:
    """Serve the pages of a node; the port."""
    with serve(ANY_PORT, agent_of(node), database) as server:
        assert server
        yield server.address.port


@pytest.fixture
def crontab(database_url: str) -> Iterator[Crontab]:
    database = open_database(database_url)
    found = Crontab(database, "tester@here")
    found.add(definition("a"))
    yield found
    database.close()


@pytest.fixture
def page(crontab: Crontab) -> Iterator[ClusterPage]:
    found = ClusterPage(crontab.database)
    yield found
    found.close()


def samples(page: ClusterPage) -> dict[str, float]:
    return samples_of(page.page("").body.decode())


@pytest.mark.slow
def test_fifty_clients_at_once_cost_one_transaction(page: ClusterPage) -> None:
    transactions: list[object] = []
    event.listen(page._database.engine, "begin", transactions.append)
    samples(page)
    first = len(transactions)
    page._began_at -= cluster.READ_INTERVAL
    with MonitorServer(ANY_PORT, {"/cluster": page.page}) as server, ThreadPoolExecutor(50) as threads:
        replies = list(threads.map(lambda _: get(server.address, "/cluster"), range(50)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.samples()["dcron_cluster_read_seconds"] for reply in replies}) == 1
    assert len(transactions) == first + 1


def test_the_page_is_valid_in_both_formats(page: ClusterPage) -> None:
    found = page.page("application/openmetrics-text; version=1.0.0")
    families = {family.name for family in families_of(found.body.decode())}
    assert {"dcron_tasks", "dcron_cluster_age_seconds", "dcron_task_failures"} <= families
    assert samples(page)["dcron_task_failures{task=a}"] == 0


def test_without_the_database_the_last_answer_ages(
    page: ClusterPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert samples(page)["dcron_cluster_up"] == 1
    monkeypatch.setattr(cluster, "READ_INTERVAL", 0.0)
    with monkeypatch.context() as away:
        away.setattr(cluster_figures, "read", refuse)
        first = samples(page)
        time.sleep(0.05)
        second = samples(page)
    assert first["dcron_cluster_up"] == second["dcron_cluster_up"] == 0
    assert second["dcron_cluster_age_seconds"] >= first["dcron_cluster_age_seconds"] + 0.05
    assert second["dcron_tasks{state=active}"] == 1
    asked = time.monotonic()
    back = samples(page)
    assert back["dcron_cluster_up"] == 1
    assert back["dcron_cluster_age_seconds"] <= time.monotonic() - asked, "it is read after the question"


def refuse(*_: object) -> None:
    raise DatabaseError("away")


def test_without_any_answer_yet_the_page_says_so(page: ClusterPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_figures, "read", refuse)
    found = samples(page)
    assert (found["dcron_cluster_up"], "dcron_tasks{state=active}" in found) == (0, False)


def test_a_reading_that_hangs_delays_no_client(page: ClusterPage, monkeypatch: pytest.MonkeyPatch) -> None:
    samples(page)
    release = threading.Event()
    monkeypatch.setattr(cluster, "READ_INTERVAL", 0.0)
    monkeypatch.setattr(cluster, "_WAIT", 0.1)
    monkeypatch.setattr(cluster_figures, "read", lambda *_: release.wait(PATIENCE))
    with ThreadPoolExecutor(10) as threads:
        found = list(threads.map(lambda _: samples(page), range(10)))
    assert {each["dcron_tasks{state=active}"] for each in found} == {1}
    reading = [each for each in threading.enumerate() if each.name == "dcron-monitor-read"]
    assert len(reading) == 1
    release.set()
    reading[0].join(PATIENCE)


def test_no_query_takes_longer_than_its_time(crontab: Crontab) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    database = crontab.database
    with pytest.raises(DatabaseError):  # noqa: SIM117
        with database.snapshot() as connection, database.time_limit(connection, 0.2):
            connection.exec_driver_sql(endless)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_no_empty_file_takes_the_place_of_a_missing_one(tmp_path: Path) -> None:
    page = ClusterPage(open_database(f"sqlite:///{tmp_path / 'none.db'}"))
    assert samples(page)["dcron_cluster_up"] == 0
    assert not (tmp_path / "none.db").exists()


def test_another_file_at_the_path_is_read_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "READ_INTERVAL", 0.0)
    with template_database(None, tmp_path) as url:
        path = tmp_path / "dcron.db"
        page = ClusterPage(open_database(url))
        assert samples(page)["dcron_cluster_up"] == 1
        copy = tmp_path / "copy.db"
        copy.write_bytes(path.read_bytes())
        copy.rename(path)
        assert samples(page)["dcron_cluster_up"] == 0
        assert samples(page)["dcron_cluster_up"] == 1
        page.close()


@pytest.mark.slow
def test_a_taken_port_leaves_the_agent_running(world: World, caplog: pytest.LogCaptureFixture) -> None:
    node = world.node()
    with (
        served(node, world.database) as port,
        serve(ListenAddress("127.0.0.1", port), agent_of(node), world.database),
    ):
        pass
    assert "the agent runs without it" in caplog.text
