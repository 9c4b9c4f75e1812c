"""A database password that changes while an agent runs: the agent needs no restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from dcron.model import RunState
from tests.support.cluster import cluster, wait_for
from tests.support.databases import PostgresServer, execute, new_database

ROLE = "rotated"
_CONNECTIONS_OF_THE_ROLE = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that asks this role for its password."""
    made = PostgresServer()
    (made.data / "pg_hba.conf").write_text(f"local all {ROLE} scram-sha-256\nlocal all all trust\n")
    execute(made.url, f"CREATE ROLE {ROLE} LOGIN SUPERUSER PASSWORD 'first'", "SELECT pg_reload_conf()")
    yield made
    made.close()


@pytest.mark.timeout(180)
def test_an_agent_takes_the_new_password_from_the_file(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(passwords))

    def write(password: str) -> None:
        passwords.write_text(f"*:*:*:{ROLE}:{password}\n")
        passwords.chmod(0o600)

    write("first")
    with new_database(server.url, tmp_path) as url, cluster(url, tmp_path) as played:
        played.add("greet", "@yearly", "true")
        own = make_url(url).set(username=ROLE).render_as_string(hide_password=False)
        agent = played.start_agent("web-1", lease=20, environment={"DCRON_DB": own})
        played.crontab.run(played.crontab.get("greet"))
        wait_for(lambda: played.runs(RunState.SUCCEEDED, task="greet"), 20, "the first run succeeds")

        execute(server.url, f"ALTER ROLE {ROLE} PASSWORD 'second'", _CONNECTIONS_OF_THE_ROLE)
        wait_for(lambda: "password authentication failed" in agent.log.read_text(), 15, "it is refused")
        write("second")
        played.crontab.run(played.crontab.get("greet"))
        succeeded = RunState.SUCCEEDED
        wait_for(lambda: len(played.runs(succeeded, task="greet")) == 2, 20, "the second run succeeds")

        assert agent.process.poll() is None
        assert "Traceback" not in agent.log.read_text()
        assert len(played.alive()) == 1
        agent.terminate()
        assert agent.wait(20) == 0
