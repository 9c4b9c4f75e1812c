"""Another tool may set the journal mode of a SQLite file under running agents."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dcron.database import files
from tests.support.agents import agent
from tests.support.cli import Dcron, real
from tests.support.patience import until


@contextmanager
def other_tool(path: str) -> Iterator[str]:
    """Set the mode that dcron would not set, and keep the file open; return the mode."""
    mode = "delete" if files.wal_is_safe() else "wal"
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as tool:

        def is_set() -> bool:
            try:
                return bool(tool.execute(f"PRAGMA journal_mode = {mode}").fetchone() == (mode,))
            except sqlite3.OperationalError:  # an agent writes
                return False

        until(is_set)
        assert tool.execute("SELECT count(*) FROM crontab").fetchone()
        yield mode


@pytest.mark.slow
def test_agents_and_verbs_survive_another_tool_s_journal_mode(sqlite: Dcron, tmp_path: Path) -> None:
    sqlite.done("add", "-n", "often", "@every 1s", "true")
    path = sqlite.url.removeprefix("sqlite:///")

    def last() -> int:
        found = sqlite.done("runs", "--state", "succeeded", "--json").json
        return max((run["id"] for run in found), default=0)

    with agent(sqlite, "web-1"):
        until(lambda: last() > 1)
        with other_tool(path) as mode:
            for verb in ("list", "runs", "nodes", "info"):
                assert real(verb, "--json", url=sqlite.url).code == 0, verb
            if mode == "wal":
                assert '"journal"' in real("doctor", "--json", url=sqlite.url).out
            before = last()
            with agent(sqlite, "web-2"):
                until(lambda: last() > before + 2)
    with closing(sqlite3.connect(path)) as left:
        assert left.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.skipif(files.wal_is_safe(), reason="dcron uses the write-ahead log itself here")
def test_a_connection_that_is_alone_leaves_the_write_ahead_log(sqlite: Dcron) -> None:
    path = sqlite.url.removeprefix("sqlite:///")
    sqlite.done("add", "-n", "one", "@yearly", "true")
    with other_tool(path):
        assert sqlite.done("info", "--json").json["journal_mode"] == "wal"
    assert sqlite.done("info", "--json").json["journal_mode"] == "truncate"
