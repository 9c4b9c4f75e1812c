"""Ping other services: when the runs of a task with `ping` start and end, and while the cluster is healthy.

The form is that of Healthchecks (https://healthchecks.io/docs/http_api/): `URL/start`, `URL` after a success,
`URL/EXITCODE` after a failure, with `rid`, one UUID for each run. Pings are sent by threads of their own and
have no rows: a ping that does not arrive after three tries is lost.
"""

import math
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Condition, Thread
from urllib.parse import urlsplit, urlunsplit

from dcron.agent.log import log
from dcron.model import RunState
from dcron.policy.starting import retries
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import ClaimedRun
from dcron.values.lists import Chunk

MOST_WAITING = 1000
"""Pings. Further ones are dropped."""
LONGEST_BODY = 10_000
"""Bytes of output that a ping carries."""
TRIES = 3
_BACKOFF = (1.0, 5.0)
"""Seconds before the second and the third try."""
_THREADS = 8
_THREADS_PER_HOST = 4
"""So that a host that does not answer holds up its own pings only."""
_THREADS_FOR_SLOW = 4
"""Threads that all hosts together get whose last ping failed: the others are always free for good ones."""
_CLUSTER_INTERVAL = 60.0
"""Least seconds between two pings of `[agent] ping`."""
_LAST_PATIENCE = 5.0
"""Seconds that a stopping agent waits for its last pings."""


@dataclass
class Ping:
    """One request to make."""

    url: str
    body: bytes
    about: str
    """The task, for messages."""
    tries: int = 0


@dataclass
class _Backlog:
    """The pings of one check, which are sent one after the other: an end never overtakes its start."""

    host: str
    waiting: deque[Ping] = field(default_factory=deque)
    is_busy: bool = False
    not_before: float = 0.0


class PingQueue:
    """Sends pings from a few threads, which begin with the first ping. No method but `close` waits."""

    def __init__(
        self, send: Callable[[str, bytes], None] | None = None, backoff: tuple[float, ...] = _BACKOFF
    ) -> None:
        """`send` makes one request, or raises PingError. `backoff`: seconds before each further try."""
        self._send = send
        self._backoff = backoff
        self._changed = Condition()
        self._backlogs: dict[str, _Backlog] = {}
        self._count = 0
        self._hosts: Counter[str] = Counter()
        """By host, how many requests are under way."""
        self._threads: list[Thread] = []
        self._closed = False
        self._failing: set[str] = set()
        """The URLs whose last ping failed: a failure is reported once."""
        self._slow: set[str] = set()
        """The hosts whose last request got no answer, or one that another try may change."""
        self._is_full = False

    def add(self, check: str, ping: Ping) -> None:
        """Send a ping after the earlier ones of the same check, which is the URL that was configured."""
        with self._changed:
            if self._closed:
                return
            if self._count >= MOST_WAITING:
                if not self._is_full:
                    log.warning(
                        "ping: %d pings wait, further ones are dropped", self._count, event="ping-dropped"
                    )
                self._is_full = True
                return
            self._is_full = False
            self._count += 1
            backlog = self._backlogs.setdefault(check, _Backlog(urlsplit(check).hostname or ""))
            backlog.waiting.append(ping)
            if len(self._threads) < min(_THREADS, self._count):
                thread = Thread(target=self._run, name="dcron-pings", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def close(self, patience: float = _LAST_PATIENCE) -> None:
        """Wait up to `patience` seconds until everything is sent; then take and send nothing more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, patience)
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while taken := self._take():
            check, ping = taken
            error = self._try(ping)
            self._settle(check, ping, error)

    def _take(self) -> tuple[str, Ping] | None:
        """Wait for a ping that may be sent now; return it with its check, or None after `close`."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                idle = [item for item in self._backlogs.items() if not item[1].is_busy]
                for check, backlog in idle:
                    if backlog.not_before <= now and self._has_room(backlog.host):
                        backlog.is_busy = True
                        self._hosts[backlog.host] += 1
                        return check, backlog.waiting[0]
                pauses = (backlog.not_before - now for _, backlog in idle if backlog.not_before > now)
                self._changed.wait(min(pauses, default=None))
        return None

    def _has_room(self, host: str) -> bool:
        """Return whether one more request to this host may be under way."""
        if host in self._slow and sum(self._hosts[each] for each in self._slow) >= _THREADS_FOR_SLOW:
            return False
        return self._hosts[host] < _THREADS_PER_HOST

    def _try(self, ping: Ping) -> Exception | None:
        from dcron.notifying import ping as http  # most agents send no pings

        try:
            (self._send or http.send)(ping.url, ping.body)
        except http.PingError as error:
            ping.tries = TRIES if error.is_final else ping.tries + 1
            return error
        except Exception as error:  # a ping must never end its thread
            ping.tries = TRIES
            return error
        return None

    def _settle(self, check: str, ping: Ping, error: Exception | None) -> None:
        with self._changed:
            backlog = self._backlogs[check]
            backlog.is_busy = False
            self._hosts[backlog.host] -= 1
            (self._slow.add if error else self._slow.discard)(backlog.host)
            if error and ping.tries < TRIES:
                backlog.not_before = time.monotonic() + self._backoff[ping.tries - 1]
            else:
                backlog.not_before = 0.0
                backlog.waiting.popleft()
                self._count -= 1
                self._report(check, ping, backlog.host, error)
            if not backlog.waiting:
                del self._backlogs[check]
            self._changed.notify_all()

    def _report(self, check: str, ping: Ping, host: str, error: Exception | None) -> None:
        """Log that a check does not get its pings, once until it gets them again."""
        if error is None:
            self._failing.discard(check)
        elif check not in self._failing:
            self._failing.add(check)
            log.warning("ping of %s to %s failed: %s", ping.about, host, error, event="ping-failed")


class RunPings:
    """Says what to ping for the runs of one node. The dispatcher calls `started`, the recorder the rest."""

    def __init__(self, queue: PingQueue | None = None) -> None:
        self.queue = queue or PingQueue()
        self._tails: dict[int, bytes] = {}
        """By run, the end of its output: of runs with pings only."""

    def started(self, run: ClaimedRun) -> None:
        """Ping that this run starts, if its task has a URL."""
        if run.task.ping:
            self._tails[run.id] = b""
            self._add(run, "start", b"")

    def printed(self, run_id: int, chunks: Iterable[Chunk]) -> None:
        """Keep the end of the output of a run that has pings."""
        if run_id in self._tails:
            text = b"".join([self._tails[run_id], *(chunk.data for chunk in chunks)])
            self._tails[run_id] = text[-LONGEST_BODY:]

    def ended(self, run: ClaimedRun, result: RunResult) -> None:
        """Ping how this run has ended, if its task has a URL."""
        if not run.task.ping:
            return
        body = self._tails.get(run.id, b"")
        ending = _ending(run, result)
        if ending in ("fail", "log"):  # the URL alone does not say why
            reason = (result.reason or result.state.value).encode() + b"\n"
            body = reason + body[-(LONGEST_BODY - len(reason)) :]
        self._add(run, ending, body)

    def forget(self, run_id: int) -> None:
        """Drop the kept output of a run."""
        self._tails.pop(run_id, None)

    def _add(self, run: ClaimedRun, ending: str, body: bytes) -> None:
        check = run.task.ping or ""
        rid = uuid.uuid5(uuid.NAMESPACE_URL, f"{check} {run.id} {run.scheduled_for}")
        self.queue.add(check, Ping(url_of(check, ending, rid), body, run.task.name))


class ClusterPings:
    """The dead man's switch: pings a URL while the cluster is healthy, at most once a minute."""

    def __init__(
        self, url: str | None, queue: PingQueue, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._queue = queue
        self._clock = clock
        self._next = -math.inf

    def healthy(self) -> None:
        """Ping, if there is a URL and the last ping is a minute old."""
        if self._url and self._clock() >= self._next:
            self._next = self._clock() + _CLUSTER_INTERVAL
            self._queue.add(self._url, Ping(self._url, b"", "the cluster"))


def url_of(check: str, ending: str, rid: uuid.UUID) -> str:
    """Return the URL of one ping: `start`, `log`, `fail`, an exit code, or nothing for a success."""
    parts = urlsplit(check)
    path = parts.path.rstrip("/") + f"/{ending}" if ending else parts.path
    query = "&".join(filter(None, [parts.query, f"rid={rid}"]))
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def _ending(run: ClaimedRun, result: RunResult) -> str:
    """Return what follows the URL when a run has ended. A failure that is retried is only logged."""
    if result.state is RunState.SUCCEEDED:
        return ""
    if result.state is RunState.CANCELLED or _is_retried(run, result):
        return "log"
    if result.exit_code and not result.timed_out and not result.never_begun:
        return str(result.exit_code)
    return str(128 + result.signal) if result.signal and not result.timed_out else "fail"


def _is_retried(run: ClaimedRun, result: RunResult) -> bool:
    if result.never_begun and result.state is RunState.LOST:
        return True
    return retries.retry_at(run.task, run.id, run.attempt, result.state, result.finished_at) is not None
