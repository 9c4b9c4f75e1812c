"""The benchmarks that start real agents run to their end, with very little to measure."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from benchmarks import bench_network_delay, bench_same_minute, bench_spawns
from benchmarks.bench_same_minute import Minute
from benchmarks.machine import busy_cores, cpu_seconds
from benchmarks.schedulers import Scheduler, UnavailableError, Workload, dcron
from benchmarks.servers import server_process, server_socket
from tests.support.cluster import wait_for
from tests.support.proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@contextmanager
def _missing(_: Workload) -> Iterator[list[int]]:
    raise UnavailableError("not installed")
    yield []


@pytest.mark.long
def test_commands_of_one_minute_are_measured_and_a_missing_scheduler_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schedulers = [Scheduler("cronstable", _missing), dcron("sqlite", "")]
    bench_same_minute.report(schedulers, counts=[3], minutes=1)
    missing, measured = capsys.readouterr().out.splitlines()[2:4]
    assert missing.split(maxsplit=1) == ["cronstable", "not installed"]
    assert measured.lstrip().startswith("dcron, SQLite, 1 agent")
    assert "last" in measured
    assert "only" not in measured


def test_the_last_start_is_compared_with_that_of_cronstable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"cronstable": [0.1, 0.4], "dcron": [0.2, 0.5], "slow": [9.0]}
    monkeypatch.setattr(
        bench_same_minute, "measure", lambda scheduler, *_: Minute(late[scheduler.name], cpu=1.0, others=0.1)
    )
    bench_same_minute.report([Scheduler(name, _missing) for name in late], counts=[2], minutes=1)
    cronstable, dcron, slow = capsys.readouterr().out.splitlines()[2:5]
    assert cronstable.endswith("last / cronstable's 1.00")
    assert dcron.endswith("last / cronstable's 1.25")
    assert "only 1 of 2 commands started" in slow


def test_starts_on_a_slow_network_are_measured(
    postgres_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_network_delay.report(postgres_server, seconds=1, delays=[0.02])
    assert "20 ms each way: first" in capsys.readouterr().out


@pytest.mark.long
def test_runs_a_second_are_measured_with_default_slots(
    postgres_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench_spawns.report(postgres_server, runs=20)
    assert capsys.readouterr().out.count("slots (default)") == 2


def test_a_delay_takes_time_and_no_throughput(postgres_server: str) -> None:
    socket = server_socket(postgres_server)
    assert socket
    with Proxy(socket, random.Random(0)) as proxy:
        proxy.delay = 0.1
        with psycopg.connect(proxy.url(postgres_server), autocommit=True) as connection:
            one = _seconds(connection, "SELECT 1")
            many = _seconds(connection, "SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    assert one >= 0.2
    assert many < 20 * one  # one after the other they would take 2,000 delays


def _seconds(connection: "psycopg.Connection[tuple[object, ...]]", statement: str) -> float:
    began = time.monotonic()
    connection.execute(statement.encode()).fetchall()
    return time.monotonic() - began


def test_cpu_time_contains_that_of_living_and_ended_descendants(postgres_server: str) -> None:
    us = [os.getpid()]
    before = cpu_seconds(us)
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert cpu_seconds(us) >= before + 0.45
    with busy_cores():
        before = cpu_seconds(us)
        wait_for(lambda: cpu_seconds(us) > before + 0.5, 60, "the loops use CPU time")
    assert cpu_seconds(server_process(postgres_server)) > 0
