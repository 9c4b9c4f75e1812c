"""A hot standby: verbs that read work there, the others say what it is; several servers in one URL."""

import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import open_database
from tests.faults.campaign.failover import Standby
from tests.support.cli import on_terminal, real
from tests.support.databases import PostgresServer
from tests.support.proxy import Proxy

READING = (
    ["list"],
    ["view", "one"],
    ["runs"],
    ["why", "one"],
    ["nodes"],
    ["history"],
    ["alerts"],
    ["stats"],
    ["preview", "one"],
    ["export"],
    ["config", "list"],
    ["info"],
)
WRITING = (["add", "-n", "two", "@daily", "true"], ["pause", "one"], ["run", "one"])


@pytest.fixture(scope="module")
def standby() -> Iterator[Standby]:
    """A standby of a crontab with one task."""
    primary = PostgresServer()
    try:
        with closing(open_database(primary.url)) as database:
            migrations.prepare(database)
        assert real("add", "-n", "one", "@daily", "true", url=primary.url).code == 0
        with tempfile.TemporaryDirectory(prefix="dcron-standby-") as place:
            standby = Standby(primary, Path(place))
            try:
                yield standby
            finally:
                standby.close()
    finally:
        primary.close()


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_verb_that_reads_works_on_a_standby(standby: Standby, words: list[str]) -> None:
    done = real(*words, url=standby.url)
    assert (done.code, "standby" in done.err) == (0, False), done.err


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_verb_that_writes_says_what_the_server_is(standby: Standby, words: list[str]) -> None:
    refused = real(*words, url=standby.url)
    assert refused.code == 3
    assert "is a standby" in refused.err
    assert "target_session_attrs=read-write" in refused.err


def test_an_agent_waits_for_a_server_that_accepts_changes(standby: Standby) -> None:
    ended = real("agent", "--once", "--lease", "4s", url=standby.url)
    assert ended.code == 3
    assert "is a standby" in ended.err


def test_the_doctor_names_a_standby(standby: Standby) -> None:
    assert '"standby"' in real("doctor", "--json", url=standby.url).out


def test_the_screen_reads_from_a_standby(standby: Standby) -> None:
    shown = on_terminal("tui", "--readonly", url=standby.url, wait_for="one", typed="q")
    assert shown.code == 0
    assert "read-only transaction" not in shown.out


def test_a_url_with_several_servers_finds_the_one_that_lives(standby: Standby) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = free.getsockname()[1]
    with Proxy(standby.socket, random.Random(0)) as proxy:
        url = make_url(proxy.url(standby.url))
        several = (
            f"postgresql://postgres:@127.0.0.1:{dead},127.0.0.1:{proxy.port}/{url.database}?sslmode=disable"
        )
        done = real("list", url=several)
        assert (done.code, "one" in done.out) == (0, True), done.err
        shown = real("db", "url", url=several.replace("postgres:@", "postgres:s3cret@"))
        assert shown.out.strip().startswith(
            f"postgresql://postgres:***@127.0.0.1:{dead},127.0.0.1:{proxy.port}/"
        )
