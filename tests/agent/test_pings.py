"""Pings: in order for each URL, tried three times, and never in the way of the runs."""

import dataclasses
import threading
import uuid
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest

from dcron.agent.pings import LONGEST_BODY, MOST_WAITING, ClusterPings, Ping, PingQueue, RunPings, url_of
from dcron.model import Definition, RunState, Task, Trigger
from dcron.notifying.ping import PingError
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import ClaimedRun
from dcron.values.lists import Chunk
from tests.support.node import NINE
from tests.support.patience import PATIENCE, until

CHECK, OTHER = "https://hc.example.org/a", "https://hc.example.org/b"
AT_ONCE = (0.0, 0.0)


class Sender:
    """Sends nothing, and fails as a test wants."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.held = threading.Event()
        self.held.set()
        self.under_way = 0
        self.most_under_way = 0
        self._lock = threading.Lock()

    def __call__(self, url: str, body: bytes) -> None:
        with self._lock:
            self.tried.append(url)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        self.held.wait(PATIENCE)
        with self._lock:
            self.under_way -= 1
        if failures := self.failures.get(url):
            raise failures.pop(0)


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def queue(sender: Sender) -> PingQueue:
    return PingQueue(sender, AT_ONCE)


def add(queue: PingQueue, check: str, ending: str = "") -> None:
    queue.add(check, Ping(check + ending, b"", "backup"))


def test_pings_of_one_url_are_sent_in_order(sender: Sender, queue: PingQueue) -> None:
    for number in range(20):
        add(queue, CHECK, f"/{number}")
    queue.close(30)
    assert sender.tried == [f"{CHECK}/{number}" for number in range(20)]
    assert sender.most_under_way == 1


def test_a_ping_is_tried_three_times_before_the_next_one(
    sender: Sender, queue: PingQueue, caplog: pytest.LogCaptureFixture
) -> None:
    sender.failures[f"{CHECK}/start"] = [PingError("HTTP 503")] * 3
    add(queue, CHECK, "/start")
    add(queue, CHECK)
    queue.close(30)
    assert sender.tried == [f"{CHECK}/start"] * 3 + [CHECK]
    (record,) = caplog.records
    assert record.getMessage() == "ping of backup to hc.example.org failed: HTTP 503"
    assert record.__dict__["event"] == "ping-failed"


def test_a_second_try_that_succeeds_is_not_reported(
    sender: Sender, queue: PingQueue, caplog: pytest.LogCaptureFixture
) -> None:
    sender.failures[CHECK] = [PingError("no answer within 10s")]
    add(queue, CHECK)
    queue.close(30)
    assert sender.tried == [CHECK] * 2
    assert not caplog.records


def test_an_answer_that_is_final_is_not_tried_again(sender: Sender, queue: PingQueue) -> None:
    sender.failures[CHECK] = [PingError("HTTP 404", is_final=True)]
    add(queue, CHECK)
    queue.close(30)
    assert sender.tried == [CHECK]


def test_a_failure_is_reported_once_until_a_ping_arrives(
    sender: Sender, queue: PingQueue, caplog: pytest.LogCaptureFixture
) -> None:
    sender.failures[CHECK] = [PingError("HTTP 404", is_final=True)] * 3
    for _ in range(4):
        add(queue, CHECK)
    until(lambda: len(sender.tried) == 4)
    sender.failures[CHECK] = [PingError("HTTP 404", is_final=True)]
    add(queue, CHECK)
    queue.close(30)
    assert len(caplog.records) == 2


def test_an_error_of_the_sender_itself_costs_no_thread(sender: Sender, queue: PingQueue) -> None:
    sender.failures[CHECK] = [RuntimeError("a bug")]
    add(queue, CHECK)
    add(queue, CHECK)
    queue.close(30)
    assert sender.tried == [CHECK, CHECK]


def test_a_host_that_does_not_answer_leaves_threads_to_others(sender: Sender, queue: PingQueue) -> None:
    sender.held.clear()
    for number in range(50):
        add(queue, f"https://dead.example.org/{number}")
    add(queue, CHECK)
    until(lambda: CHECK in sender.tried)
    assert sender.most_under_way <= 5
    sender.held.set()
    queue.close(30)
    assert len(sender.tried) == 51


def test_hosts_that_failed_leave_threads_to_others(sender: Sender, queue: PingQueue) -> None:
    """Each host that does not answer has threads of its own: many of them would hold all."""
    slow = [f"https://slow-{number}.example.org/x" for number in range(20)]
    sender.failures = {each: [PingError("no answer") for _ in range(3)] for each in slow}
    for each in slow:
        add(queue, each)
    until(lambda: not queue._count)
    sender.held.clear()
    for each in slow:
        for number in range(5):
            add(queue, f"{each}{number}")
    until(lambda: sender.under_way)
    add(queue, CHECK)
    until(lambda: CHECK in sender.tried)
    sender.held.set()
    queue.close(30)


def test_adding_never_waits_and_too_many_pings_are_dropped(
    sender: Sender, queue: PingQueue, caplog: pytest.LogCaptureFixture
) -> None:
    sender.held.clear()
    for _ in range(MOST_WAITING + 100):
        add(queue, CHECK)
    assert [record.__dict__["event"] for record in caplog.records] == ["ping-dropped"]
    sender.held.set()
    queue.close(60)
    assert len(sender.tried) == MOST_WAITING


def test_an_agent_that_stops_does_not_wait_for_a_dead_host(sender: Sender, queue: PingQueue) -> None:
    sender.held.clear()
    add(queue, CHECK)
    add(queue, OTHER)
    queue.close(0.05)
    add(queue, OTHER)
    sender.held.set()
    until(lambda: not sender.under_way)
    assert sender.tried.count(OTHER) <= 1


def test_an_agent_without_pings_has_no_thread_for_them(queue: PingQueue) -> None:
    queue.close()
    assert not queue._threads


def test_the_cluster_is_pinged_at_most_once_a_minute(sender: Sender, queue: PingQueue) -> None:
    now = 1000.0
    pings = ClusterPings(CHECK, queue, lambda: now)
    for now in (1000.0, 1015.0, 1059.0, 1061.0, 1075.0):  # noqa: B007 - the clock reads it
        pings.healthy()
    ClusterPings(None, queue).healthy()
    queue.close(30)
    assert sender.tried == [CHECK, CHECK]


class Collecting(PingQueue):
    """Sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[tuple[str, Ping]] = []

    def add(self, check: str, ping: Ping) -> None:
        self.added.append((check, ping))

    @property
    def endings(self) -> list[str]:
        """What follows the URL of the check, without the query."""
        return [ping.url.removeprefix(check).partition("?")[0] for check, ping in self.added]


@pytest.fixture
def collected() -> Collecting:
    return Collecting()


def run_of(*, ping: str | None = CHECK, tries: int = 1) -> ClaimedRun:
    """Return a run of a task with a ping."""
    given = Definition(
        name="backup", schedule="@daily", timezone="UTC", command="true", ping=ping, tries=tries
    )
    task = Mock(spec=Task, id=1, **vars(given))
    task.name = "backup"
    return ClaimedRun(7, task, Trigger.SCHEDULE, 1, NINE, None, {})


@pytest.mark.parametrize(
    ("result", "ending"),
    [
        (RunResult(7, RunState.SUCCEEDED, NINE, exit_code=0), ""),
        (RunResult(7, RunState.FAILED, NINE, "exit 3", 3), "/3"),
        (RunResult(7, RunState.FAILED, NINE, "killed by SIGKILL", None, 9), "/137"),
        (RunResult(7, RunState.FAILED, NINE, "timeout", 0, timed_out=True), "/fail"),
        (RunResult(7, RunState.FAILED, NINE, "could not be started", 127, never_begun=True), "/fail"),
        (RunResult(7, RunState.LOST, NINE, "its warden died"), "/fail"),
        (RunResult(7, RunState.CANCELLED, NINE, "cancelled by ann"), "/log"),
    ],
)
def test_a_run_pings_its_start_and_its_end(collected: Collecting, result: RunResult, ending: str) -> None:
    pings = RunPings(collected)
    pings.started(run_of())
    pings.ended(run_of(), result)
    assert collected.endings == ["/start", ending]
    start, end = (parse_qs(urlsplit(ping.url).query)["rid"] for _, ping in collected.added)
    assert start == end
    assert str(uuid.UUID(start[0])) == start[0]


def test_a_failure_that_is_retried_is_only_logged(collected: Collecting) -> None:
    pings, failed = RunPings(collected), RunResult(7, RunState.FAILED, NINE, "exit 1", 1)
    pings.ended(run_of(tries=2), failed)
    pings.ended(dataclasses.replace(run_of(tries=2), attempt=2), failed)
    assert collected.endings == ["/log", "/1"]


def test_a_ping_carries_the_end_of_the_output(collected: Collecting) -> None:
    pings = RunPings(collected)
    pings.started(run_of())
    pings.printed(7, [Chunk(7, 0, "out", NINE, b"x" * 20_000)])
    pings.printed(7, [Chunk(7, 20_000, "err", NINE, b"disk full\n")])
    pings.printed(8, [Chunk(8, 0, "out", NINE, b"of another task")])
    pings.ended(run_of(), RunResult(7, RunState.FAILED, NINE, "exit 1", 1))
    body = collected.added[-1][1].body
    assert len(body) == LONGEST_BODY
    assert body.endswith(b"xxx" + b"disk full\n")
    pings.ended(run_of(), RunResult(7, RunState.LOST, NINE, "its warden died"))
    body = collected.added[-1][1].body
    assert (len(body), body[:16]) == (LONGEST_BODY, b"its warden died\n")
    pings.forget(7)
    assert not pings._tails


def test_a_task_without_a_url_pings_nothing(collected: Collecting) -> None:
    pings = RunPings(collected)
    pings.started(run_of(ping=None))
    pings.ended(run_of(ping=None), RunResult(7, RunState.SUCCEEDED, NINE))
    assert not collected.added
    assert not pings._tails


def test_the_url_of_a_ping_keeps_the_query() -> None:
    rid = uuid.UUID(int=1)
    assert url_of("https://a.org/x/?create=1", "start", rid) == f"https://a.org/x/start?create=1&rid={rid}"
    assert url_of("https://a.org/x/", "", rid) == f"https://a.org/x/?rid={rid}"
    assert url_of("https://a.org", "3", rid) == f"https://a.org/3?rid={rid}"
