"""Clocks change under a running agent: its clock, and the database's, come to the moment of the change."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.faults.campaign.clocks import compiled, environment
from tests.faults.campaign.playing import NotHere
from tests.support.cluster import Cluster, cluster, wait_for
from tests.support.databases import PostgresServer, new_database

FOR_EVER = 2**40
BEFORE = 75
"""Seconds before the change at which the agent starts, and what it takes on a busy machine."""
FORWARD = datetime(2027, 3, 28, 1, tzinfo=UTC)
BACK = datetime(2027, 10, 31, 1, tzinfo=UTC)
"""When clocks change in Berlin."""
SCHEDULES = {"minute": "* * * * *", "two": "0 2 * * *", "half-past": "30 2 * * *", "three": "0 3 * * *"}
ONCE_A_DAY = SCHEDULES.keys() - {"minute"}


@pytest.fixture
def library() -> Iterator[Path]:
    """The library that shifts clocks, where the account of the server can read it."""
    with TemporaryDirectory(prefix="dcron-clock-") as place:
        try:
            made = compiled(Path(place))
        except NotHere as missing:
            pytest.skip(str(missing))
        for path in (Path(place), made):
            path.chmod(0o755)
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer | None]:
    made = PostgresServer() if request.param == "postgres" else None
    yield made
    if made:
        made.close()


def shifted(library: Path, change: datetime) -> dict[str, str]:
    """Return the environment in which it is a while before the change now."""
    seconds = int((change - timedelta(seconds=BEFORE) - datetime.now(UTC)).total_seconds())
    return {"LD_PRELOAD": str(library), **environment(seconds, 0, FOR_EVER)}


def import_tasks(team: Cluster, wrong: dict[str, str]) -> None:
    """Import tasks in Berlin at the time that the shifted clock shows."""
    file = team.directory / "crontab"
    command = team.entry("start")
    lines = [f"#dcron: name={name}\n{schedule} {command}" for name, schedule in SCHEDULES.items()]
    file.write_text("\n".join(["CRON_TZ=Europe/Berlin", *lines, ""]))
    account = ["--user", "root"] if os.geteuid() == 0 else []
    words = [sys.executable, "-m", "dcron", "import", *account, str(file)]
    subprocess.run(words, check=True, env={**os.environ, **wrong, "DCRON_DB": team.url}, timeout=120)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", [FORWARD, BACK], ids=["forward", "back"])
def test_each_occurrence_runs_once_through_the_change(
    server: PostgresServer | None, library: Path, tmp_path: Path, change: datetime
) -> None:
    with new_database(server.url if server else None, tmp_path) as url, cluster(url, tmp_path) as team:
        wrong = shifted(library, change)
        if server:
            server.restart(wrong)
            team.database.close()
        import_tasks(team, wrong)
        team.start_agent("web-1", lease=10, environment=wrong)
        wait_for(lambda: after(team, "minute", change + timedelta(minutes=1)), 180, "the minute after it")
        team.agents[0].terminate()
        assert team.agents[0].wait(30) == 0
        assert [each for each, times in team.starts_of_occurrences().items() if times > 1] == []
        times = occurrences(team, "minute")
        assert {(b - a).total_seconds() for a, b in pairwise(times)} == {60}, times
        assert times[0] < change < times[-1]
        # In spring 02:00 and 02:30 do not exist, and run when the gap ends, as 03:00 does. In autumn 02:00
        # comes again, one hour after it ran, and does not run again.
        ran = {name for name in ONCE_A_DAY if occurrences(team, name)}
        assert ran == (ONCE_A_DAY if change is FORWARD else set())
        log = team.agents[0].log.read_text()
        assert "Traceback" not in log
        assert "is dead" not in log


def occurrences(team: Cluster, name: str) -> list[datetime]:
    return sorted(datetime.fromisoformat(at) for task, at, *_ in team.ledger() if task == name)


def after(team: Cluster, name: str, then: datetime) -> bool:
    time.sleep(0.5)
    return any(at >= then for at in occurrences(team, name))
