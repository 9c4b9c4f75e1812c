"""Which run a process belongs to, and how it is ended."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM

import pytest

from dcron.warden import escalation
from dcron.warden.cgroups import Cgroup
from dcron.warden.descendants import Process, Processes
from dcron.warden.escalation import Escalation
from dcron.warden.orphans import Orphans

WARDEN = 10


@dataclass
class Run:
    run_id: int
    pid: int
    exited: bool = field(default=False, kw_only=True)
    began: float = field(default=1e9, kw_only=True)
    """After every orphan here, unless a test says otherwise."""
    uid: int = field(default=0, kw_only=True)
    ending: Escalation | None = field(default=None, kw_only=True)
    cgroup: tuple[int, ...] = field(default=(), kw_only=True)
    known: set[tuple[int, int]] = field(default_factory=set)

    def inside(self) -> tuple[int, ...]:
        return self.cgroup


def members(
    processes: Processes, warden: int, runs: list[Run], orphans: Orphans | None = None
) -> tuple[dict[int, list[Process]], list[Process]]:
    return escalation.members(processes, warden, runs, orphans or Orphans())


def process(
    pid: int, ppid: int, session: int | None = None, *, started: int = 1, alive: bool = True
) -> Process:
    session = session or pid
    return Process(pid, ppid, session, session, started, alive)


def table(*found: Process) -> Processes:
    processes = Processes.__new__(Processes)
    processes._by_parent = defaultdict(list)
    for each in found:
        processes._by_parent[each.ppid].append(each)
    return processes


@pytest.fixture(autouse=True)
def environments(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the run ids in the environments of processes, by pid. The account of pid 5001 is 5."""
    found: dict[int, int] = {}
    monkeypatch.setattr("dcron.warden.orphans._run_ids", lambda pids: found)
    monkeypatch.setattr("dcron.warden.orphans._uids", lambda pid: frozenset((pid // 1000,)))
    return found


def pids(processes: list[Process]) -> list[int]:
    return sorted(each.pid for each in processes)


def test_descendants_are_members_whatever_their_session() -> None:
    processes = table(process(100, WARDEN), process(101, 100, 100), process(102, 101), process(103, 102))
    of_runs, others = members(processes, WARDEN, [Run(1, 100)])
    assert (pids(of_runs[1]), others) == ([100, 101, 102, 103], [])


def test_an_orphan_of_the_session_is_a_member() -> None:
    processes = table(process(101, WARDEN, 100), process(102, 101))
    of_runs, _ = members(processes, WARDEN, [Run(1, 100)])
    assert pids(of_runs[1]) == [101, 102]


def test_an_orphan_in_its_own_session_is_known_by_its_environment(environments: dict[int, int]) -> None:
    environments |= {200: 2, 300: 3}
    processes = table(process(100, WARDEN), process(200, WARDEN), process(201, 200), process(300, WARDEN))
    of_runs, others = members(processes, WARDEN, [Run(1, 100, began=0), Run(2, 150, began=0)])
    assert (pids(of_runs[1]), pids(of_runs[2]), pids(others)) == ([100], [200, 201], [300])


def test_a_process_once_seen_stays_a_member() -> None:
    """It may lose parents, session and environment, but not what we know of it."""
    run = Run(1, 100)
    members(table(process(100, WARDEN), process(101, 100, started=5)), WARDEN, [run])
    orphan = process(101, WARDEN, started=5)
    of_runs, others = members(table(orphan), WARDEN, [run])
    assert (of_runs[1], others) == ([orphan], [])


def test_a_reused_pid_belongs_to_no_run() -> None:
    run = Run(1, 100)
    members(table(process(100, WARDEN), process(101, 100, started=5)), WARDEN, [run])
    stranger = process(101, WARDEN, started=6)
    assert members(table(stranger), WARDEN, [run]) == ({}, [stranger])


def test_the_dead_are_not_counted_but_their_children_are() -> None:
    processes = table(process(100, WARDEN, alive=False), process(101, 100))
    of_runs, _ = members(processes, WARDEN, [Run(1, 100)])
    assert pids(of_runs[1]) == [101]


def test_a_run_that_leads_a_session_inside_another_belongs_to_that() -> None:
    """What a command starts with setsid is its own, even if a pid was a run's leader before."""
    processes = table(process(100, WARDEN), process(200, 100))
    of_runs, _ = members(processes, WARDEN, [Run(1, 100), Run(2, 200)])
    assert (pids(of_runs[1]), of_runs.get(2)) == ([100, 200], None)


def test_processes_elsewhere_are_not_ours() -> None:
    processes = table(process(100, 1, 100), process(101, WARDEN, 500))
    of_runs, others = members(processes, WARDEN, [Run(1, 100)])
    assert (dict(of_runs), pids(others)) == ({}, [101])


# -- orphans that say nothing


def test_an_orphan_is_its_only_possible_run_s() -> None:
    early, late = Run(1, 100, began=0.0), Run(2, 200, began=50.0)
    orphan = process(300, WARDEN, started=1000)
    of_runs, others = members(table(orphan), WARDEN, [early, late])
    assert (of_runs[1], others) == ([orphan], [])


def test_an_orphan_is_of_its_runs_account_or_of_a_run_of_root() -> None:
    ours, neighbour, root = Run(1, 100, began=0, uid=5), Run(2, 200, began=0, uid=6), Run(3, 201, began=0)
    orphan = process(5001, WARDEN)
    assert members(table(orphan), WARDEN, [ours, neighbour])[0][1] == [orphan]
    ours.known.clear()
    assert members(table(orphan), WARDEN, [ours, root]) == ({}, [orphan])


def test_an_orphan_that_may_be_of_several_runs_ends_with_the_last_of_them() -> None:
    one, other = Run(1, 100, began=0), Run(2, 200, began=0)
    orphan, orphans = process(300, WARDEN), Orphans()
    assert members(table(orphan), WARDEN, [one, other], orphans)[1] == [orphan]
    one.ending = Escalation(0.0)
    assert members(table(orphan), WARDEN, [one, other], orphans)[1] == [orphan]
    other.ending = Escalation(0.0)
    assert members(table(orphan), WARDEN, [one, other], orphans)[1] == []


def test_an_orphan_of_a_run_that_is_over_is_no_other_runs() -> None:
    over, running = Run(1, 100, began=0), Run(2, 200, began=0)
    orphan, orphans = process(300, WARDEN), Orphans()
    orphans.notice([orphan], [over, running])
    running.ending = Escalation(0.0)
    assert members(table(orphan), WARDEN, [running], orphans) == ({}, [orphan])


def test_an_orphan_of_a_killed_run_is_left_when_no_run_is_active_that_it_may_be_of() -> None:
    killed, running = Run(1, 100, began=0), Run(2, 200, began=0)
    orphan, child, orphans = process(300, WARDEN), process(301, 300), Orphans()
    assert members(table(orphan), WARDEN, [killed, running], orphans)[1] == [orphan]
    orphans.note_end(1, was_killed=True)
    assert not orphans.are_left([2])
    assert members(table(orphan), WARDEN, [running], orphans) == ({}, [orphan])
    orphans.note_end(2, was_killed=False)
    assert orphans.are_left([3])
    assert members(table(orphan, child), WARDEN, [], orphans) == ({escalation.NO_RUN: [orphan, child]}, [])
    orphans.forget(300)
    assert not orphans.are_left([])


def test_an_orphan_of_runs_that_ended_by_themselves_is_not_left() -> None:
    one, other = Run(1, 100, began=0), Run(2, 200, began=0)
    orphan, orphans = process(300, WARDEN), Orphans()
    orphans.notice([orphan], [one, other])
    orphans.note_end(1, was_killed=False)
    orphans.note_end(2, was_killed=True)
    assert not orphans.are_left([])
    assert members(table(orphan), WARDEN, [], orphans) == ({}, [orphan])


def test_what_the_background_of_a_run_that_is_over_started_is_no_other_runs() -> None:
    orphans, running = Orphans(), Run(2, 200, began=5.0)
    background, later = process(300, WARDEN, started=1), process(301, WARDEN, started=1000)
    assert members(table(background, later), WARDEN, [running], orphans) == ({}, [background, later][::-1])
    orphans.forget(300)
    orphans.forget(301)
    assert members(table(later), WARDEN, [running], orphans)[0] == {2: [later]}


def test_a_cgroup_says_whose_a_process_is() -> None:
    one, other = Run(1, 100, began=0, cgroup=(300,)), Run(2, 200, began=0)
    orphan = process(300, WARDEN)
    assert members(table(orphan), WARDEN, [one, other]) == ({1: [orphan]}, [])


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the signals sent: pid (negative for a group) and number. Pid 13 is not ours to signal."""
    sent: list[tuple[int, int]] = []

    def send(target: Process, number: int) -> bool:
        sent.append((target.pid, number))
        return target.pid != 13

    monkeypatch.setattr("dcron.warden.escalation.send", send)
    monkeypatch.setattr("dcron.warden.descendants.send", send)
    monkeypatch.setattr(
        "dcron.warden.escalation.os.killpg", lambda group, number: sent.append((-group, number))
    )
    return sent


def test_an_ending_asks_waits_and_kills_each_once(signals: list[tuple[int, int]]) -> None:
    leader, child, other = process(100, WARDEN), process(101, 100, 100), process(102, 100)
    ending = Escalation(kill_at=5.0)
    assert not ending.step([leader, child, other], 1.0, group=100)
    assert signals == [(-100, SIGTERM), (-100, SIGCONT), (102, SIGTERM), (102, SIGCONT)]
    signals.clear()
    assert not ending.step([leader, child, other], 4.9, group=100)
    assert signals == []
    assert ending.step([child, other], 5.0, group=None)
    assert signals == [(101, SIGKILL), (102, SIGKILL)]
    signals.clear()
    assert not ending.step([child, other], 5.1, group=None)
    assert ending.step([process(103, 102)], 5.2, group=None)
    assert signals == [(103, SIGKILL)]


def test_a_cgroup_is_killed_whole_and_in_time(signals: list[tuple[int, int]], tmp_path: Path) -> None:
    order = tmp_path / "cgroup.kill"
    order.touch()
    ending = Escalation(5.0, Cgroup(str(tmp_path), {}))
    for now in (1.0, 4.9):
        ending.step([process(100, WARDEN)], now, group=100)
        assert order.read_text() == ""
    assert ending.step([process(100, WARDEN)], 5.0, group=100)
    assert order.read_text() == "1"
    assert signals[-1] == (100, SIGKILL)


def test_an_ending_can_come_sooner_but_not_later() -> None:
    ending = Escalation(kill_at=5.0)
    ending.hasten(7.0)
    assert ending.kill_at == 5.0
    ending.hasten(3.0)
    assert ending.kill_at == 3.0


def test_another_users_process_is_left_and_not_waited_for(signals: list[tuple[int, int]]) -> None:
    ours, theirs = process(12, WARDEN), process(13, WARDEN)
    ending = Escalation(kill_at=0.0)
    ending.step([ours, theirs], 1.0, group=None)
    ending.step([ours, theirs], 1.0, group=None)
    assert (13, SIGKILL) in signals
    assert ending.spared == {theirs.key}
    assert ending.left([ours, theirs]) == [ours]
