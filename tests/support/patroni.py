"""A real Patroni cluster of our own: one etcd, two Postgres nodes, and HAProxy before them."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.support.cluster import wait_for
from tests.support.databases import PostgresServer, has_room_in_memory
from tests.support.owned_directories import MEMORY, OwnedDirectory
from tests.support.pgbouncer import free_port

TTL, LOOP_WAIT, RETRY_TIMEOUT = 6, 1, 2
"""Patroni's own defaults are 30, 10 and 10 s."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSWORD = "open-sesame"
_HAPROXY = """
defaults
    mode tcp
    timeout connect 2s
    timeout client 30m
    timeout server 30m
    timeout check 2s
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 500ms fall 3 rise 1 on-marked-down shutdown-sessions
"""


def missing() -> list[str]:
    """Return the programs that are not installed here."""
    found = {name: shutil.which(name, path=_PATH) for name in ("etcd", "haproxy", "patroni")}
    found["postgres"] = str(_programs() or "")
    if os.geteuid() == 0:
        found["the account postgres"] = "postgres" if _has_account() else ""
    return [name for name, path in found.items() if not path]


def _programs() -> Path | None:
    """Return Debian's newest directory of Postgres programs."""
    versions = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max((each.parent for each in versions), key=lambda each: float(each.parent.name), default=None)


def _has_account() -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwnam("postgres"))
    return False


@dataclass
class Node:
    """One Patroni with its Postgres."""

    name: str
    place: Path
    port: int = field(default_factory=free_port)
    rest: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def data(self) -> Path:
        return self.place / "data"

    def state(self) -> dict[str, object]:
        """Return what its Patroni says about it; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=2) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):
            return {}

    def server(self) -> list[int]:
        """Return its Postgres and the children of it; nothing if it does not run."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            if Path(f"/proc/{pid}/cwd").readlink() != self.data:
                return []
            return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        except (OSError, ValueError, IndexError):
            return []

    def kill(self) -> None:
        """Kill its Patroni and its Postgres at the same time, as the end of a host would."""
        if self.process:
            self.process.kill()
        if server := self.server():
            _signal(server[:1], signal.SIGSTOP)  # it begins no other process meanwhile
            _signal(self.server(), signal.SIGKILL)
        if self.process:
            self.process.wait(10)
            self.process = None
        wait_for(lambda: not self.server(), 10, f"{self.name} is dead")


class Patroni(PostgresServer):
    """Two nodes, of which Patroni lets one take writes; HAProxy sends clients there."""

    def __init__(self, *, synchronous: bool) -> None:
        """Start all of it; return when the standby follows the primary."""
        self._synchronous = synchronous
        self._account = "postgres" if os.geteuid() == 0 else None
        self._owned = OwnedDirectory("patroni", MEMORY if has_room_in_memory() else None)
        self._place = self._owned.path
        self._give_away(self._place)
        self._etcd, self._peer, self._front = free_port(), free_port(), free_port()
        self.nodes = [Node(name, self._place / name) for name in ("node1", "node2")]
        self._others: list[subprocess.Popen[bytes]] = []
        try:
            self._start_etcd()
            for node in self.nodes:
                self._configure(node)
                self.start_node(node)
            self._start_haproxy()
            wait_for(self.is_whole, 90, "the Patroni cluster is whole")
            wait_for(self._answers, 30, "HAProxy finds the primary")
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Return the address of whatever takes writes, through HAProxy."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return self._url(f"127.0.0.1:{self._front}", database)

    def both(self, database: str) -> str:
        """Return libpq's address of both nodes, of which it takes the one that accepts writes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"{self._url(hosts, database)}?target_session_attrs=read-write&connect_timeout=3"

    def start_node(self, node: Node) -> None:
        node.process = self._start(node.place / "log", "patroni", str(node.place / "patroni.json"))

    def leader(self) -> Node | None:
        """Return the node that takes writes."""
        leading = [node for node in self.nodes if node.state().get("role") in ("master", "primary")]
        return leading[0] if len(leading) == 1 else None

    def is_whole(self) -> bool:
        """Return whether one leads and the other follows it, synchronously where that is wanted."""
        leader = self.leader()
        if leader is None:
            return False
        following = leader.state().get("replication") or []
        assert isinstance(following, list)
        if [each["state"] for each in following] != ["streaming"]:
            return False
        # Postgres calls it synchronous some time before Patroni does, which promotes no other standby.
        known = any(node.state().get("sync_standby") for node in self.nodes)
        return known == self._synchronous

    def switch_over(self, leader: Node) -> bool:
        """Let the other node lead, as a person asks for it; whether Patroni did it."""
        [other] = [node for node in self.nodes if node is not leader]
        asked = urllib.request.Request(
            f"http://127.0.0.1:{leader.rest}/switchover",
            json.dumps({"leader": leader.name, "candidate": other.name}).encode(),
            {"Content-Type": "application/json"},
        )
        with suppress(urllib.error.HTTPError, OSError), urllib.request.urlopen(asked, timeout=60) as answer:
            return bool(answer.status == 200)
        return False

    def hold_replication(self) -> None:
        """Freeze what sends the leader's changes to the standby: from now on only the leader has them."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'"
            ).fetchall()
        _signal([row[0] for row in rows], signal.SIGSTOP)

    def close(self) -> None:
        """Kill all of it and remove its files."""
        for node in self.nodes:
            node.kill()
        for process in self._others:
            process.kill()
            process.wait(10)
        self._owned.remove()

    def _url(self, hosts: str, database: str) -> str:
        return f"postgresql://postgres:{_PASSWORD}@{hosts}/{database}"

    def _answers(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2):
            return True
        return False

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        words = ["etcd", "--name", "etcd1", "--data-dir", str(self._place / "etcd")]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", f"etcd1={peer}", "--log-level", "error"]
        self._others.append(self._start(self._place / "etcd.log", *words))

    def _start_haproxy(self) -> None:
        servers = [
            f"    server {node.name} 127.0.0.1:{node.port} maxconn 100 check port {node.rest}\n"
            for node in self.nodes
        ]
        settings = self._place / "haproxy.cfg"
        settings.write_text(_HAPROXY.format(port=self._front) + "".join(servers))
        self._others.append(self._start(self._place / "haproxy.log", "haproxy", "-db", "-f", str(settings)))

    def _configure(self, node: Node) -> None:
        node.place.mkdir()
        rest, address = f"127.0.0.1:{node.rest}", f"127.0.0.1:{node.port}"
        # On a loaded machine neither the lag nor an unlucky rewind may end the play.
        shared = {"wal_log_hints": "on", "max_connections": 80, "fsync": "off", "wal_keep_size": "256MB"}
        cluster = {
            "ttl": TTL,
            "loop_wait": LOOP_WAIT,
            "retry_timeout": RETRY_TIMEOUT,
            "maximum_lag_on_failover": 64 * 1024**2,
            "synchronous_mode": self._synchronous,
            "postgresql": {"use_pg_rewind": True, "parameters": shared},
        }
        settings = {
            "scope": "dcron",
            "name": node.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"hosts": f"127.0.0.1:{self._etcd}"},
            "bootstrap": {"dcs": cluster, "initdb": [{"encoding": "UTF8"}, "data-checksums"]},
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(node.data),
                "bin_dir": str(_programs()),
                "pgpass": str(node.place / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": _PASSWORD},
                    "replication": {"username": "follower", "password": _PASSWORD},
                },
                "parameters": {"unix_socket_directories": str(node.place)},
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication all 127.0.0.1/32 scram-sha-256",
                ],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }
        (node.place / "patroni.json").write_text(json.dumps(settings))
        self._give_away(node.place)

    def _give_away(self, path: Path) -> None:
        if self._account:
            shutil.chown(path, self._account, self._account)

    def _start(self, log: Path, *words: str) -> "subprocess.Popen[bytes]":
        environment = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(self._place)}
        # Should this process be killed, they end with it, and Patroni stops its Postgres.
        command: Sequence[str] = ["setpriv", "--pdeathsig", "TERM"]
        if self._account:
            command = [*command, f"--reuid={self._account}", f"--regid={self._account}", "--clear-groups"]
        with log.open("ab") as stream:
            return subprocess.Popen(
                [*command, *words],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def patroni(*, synchronous: bool) -> Iterator[Patroni]:
    """Start a cluster, and kill it afterwards."""
    cluster = Patroni(synchronous=synchronous)
    try:
        yield cluster
    finally:
        cluster.close()
