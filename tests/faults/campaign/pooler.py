"""Agents behind pgbouncer, which they detect by themselves, beside another program that uses the pool."""

import threading
import time

import psycopg
from sqlalchemy.engine import make_url

from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import Stage
from tests.support import pgbouncer

POSTGRES = ("postgres",)
SIZES = {"transaction": 3, "session": 40}
"""Connections to the server, for all clients. With sessions each client keeps one."""


@fault("pgbouncer-transaction", POSTGRES)
def transaction(stage: Stage) -> Figures:
    """Agents behind pgbouncer in transaction mode, three connections for all, killed now and then."""
    return _behind(stage, "transaction")


@fault("pgbouncer-session", POSTGRES)
def session(stage: Stage) -> Figures:
    """Agents behind pgbouncer in session mode, killed now and then."""
    return _behind(stage, "session")


def _behind(stage: Stage, mode: str) -> Figures:
    if pgbouncer.program() is None:
        raise NotHere("pgbouncer is not installed here")
    assert stage.server
    pooler = stage.enter(pgbouncer.pgbouncer(stage.server, mode, SIZES[mode]))
    stage.at_the_end.append(pooler.kill)  # its connections must not look like those of agents
    for name in stage.leases:
        stage.environments[name] = {"DCRON_DB": pooler.url(stage.cluster.url)}
    stage.begin()
    other = OtherProgram(pooler.url(stage.cluster.url))
    restarts = 0
    for _ in stage.pauses(4.0, 8.0):
        pooler.kill()
        time.sleep(stage.chance.choice([0.0, 1.0]))
        pooler.start()
        restarts += 1
    other.stop()
    stage.require(other.looks > 0, "the other program never saw its search path")
    stage.require(other.seen <= {OtherProgram.PATH}, f"another program got the search path {other.seen}")
    silent = [
        agent.name for agent in stage.living() if "behind a connection pooler" not in agent.log.read_text()
    ]
    stage.require(not silent, f"no word of the pooler from {silent}")
    return {"pooler killed": restarts, "looks of another program": other.looks}


class OtherProgram:
    """Another client of the same pool: looks at its search path again and again."""

    PATH = '"$user", public'

    def __init__(self, url: str) -> None:
        self._url = make_url(url).render_as_string(hide_password=False)
        self._ended = threading.Event()
        self.seen: set[str] = set()
        self.looks = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            try:
                with psycopg.connect(self._url, prepare_threshold=None) as connection:
                    while not self._ended.wait(0.05):
                        [path] = connection.execute("SHOW search_path").fetchone() or [""]
                        connection.commit()
                        self.seen.add(path)
                        self.looks += 1
            except psycopg.Error:  # the pooler was killed
                continue
