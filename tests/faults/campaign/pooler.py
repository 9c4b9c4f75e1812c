"""Agents behind pgbouncer in transaction mode."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import wait_for

_SETTINGS = """
[databases]
* = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
logfile = {log}
"""


@fault("pgbouncer", ("postgres",))
def pgbouncer(stage: Stage) -> Figures:
    """Agents behind pgbouncer in transaction mode, three connections for all, killed now and then."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise NotHere("pgbouncer is not installed here")
    assert stage.server
    place = stage.enter(_place())
    settings, port = place / "pgbouncer.ini", _free_port()
    url = make_url(stage.cluster.url)
    settings.write_text(_SETTINGS.format(host=url.query["host"], port=port, log=place / "log"))
    pooled = url.set(host="127.0.0.1", port=port, username="postgres", query={"pgbouncer": "true"})
    for name in LEASES:
        stage.environments[name] = {"DCRON_DB": pooled.render_as_string(hide_password=False)}
    restarts, owner = 0, Path(stage.server.socket).owner()
    pooler = _start(program, settings, port, owner)
    try:
        stage.begin()
        for _ in stage.pauses(4.0, 8.0):
            pooler.kill()
            pooler.wait(10)
            time.sleep(stage.chance.choice([0.0, 1.0]))
            pooler = _start(program, settings, port, owner)
            restarts += 1
    finally:
        stage.at_the_end.append(lambda: _stop(pooler))
    return {"pooler killed": restarts}


def _start(program: str, settings: Path, port: int, owner: str) -> "subprocess.Popen[bytes]":
    user = owner if os.geteuid() == 0 else None
    silent = subprocess.DEVNULL
    pooler = subprocess.Popen([program, "-q", settings], user=user, stdout=silent, stderr=silent)
    wait_for(lambda: _answers(port), 10, "pgbouncer listens")
    return pooler


def _stop(pooler: "subprocess.Popen[bytes]") -> None:
    pooler.kill()
    pooler.wait(10)


@contextmanager
def _place() -> Iterator[Path]:
    """A directory into which the server's account, which pgbouncer takes too, may write."""
    with tempfile.TemporaryDirectory(prefix="dcron-pgbouncer-") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
