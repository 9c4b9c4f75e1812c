"""Commands that must end: one by one, with the lease, with the agent. None is left, whatever it tried."""

import json
import math
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcron.warden.client import Finished, Job, WardenGone
from dcron.warden.journal import JournalReader, Result
from dcron.warden.linux import boottime
from dcron.warden.spool import abandoned
from tests.faults.test_warden import parent_of, states_of_children
from tests.support.harness import ENV, Harness
from tests.support.patience import until

TREE = """
import os, signal, subprocess, sys, time  # SIG_IGN is inherited by all that follow
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stay = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)", sys.argv[1][::-1]]

def daemon(**options):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            subprocess.Popen(stay, **options)
        os._exit(0)
    os.wait()

subprocess.Popen(stay)
subprocess.Popen(stay, start_new_session=True)
subprocess.Popen(["setsid", "sh", "-c", '"$@" & exec "$@"', "sh", *stay], start_new_session=True)
subprocess.Popen(["nohup", *stay], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
daemon()
daemon(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
print("grown", flush=True)
time.sleep(1000)
"""
"""A command that ignores SIGTERM, with children, sessions within sessions and daemons that do the same.

It gets the mark of these backwards: what it forks on the way to them is not counted."""
SIZE_OF_TREE = 7

AGENT = """
import json, math, sys, threading
from pathlib import Path
from dcron.warden.client import Finished, Job, Warden, WardenGone
from dcron.warden.descendants import kill_descendants
from dcron.warden.linux import become_subreaper, boottime, hide_memory

become_subreaper()
hide_memory()
spool, lease, commands = json.loads(sys.stdin.readline())
warden = Warden(Path(spool), "web-1-0000000b")
warden.set_deadline(boottime() + lease, grace=0.3)
env = {"PATH": "/usr/bin:/bin"}
warden.start([Job(run_id=i, argv=tuple(c), env=env) for i, c in enumerate(commands, 1)])
print(warden.pid, flush=True)

def renew():
    for number, line in enumerate(sys.stdin, 101):
        warden.set_deadline(boottime() + float(line), grace=0.3)
        warden.start([Job(run_id=number, argv=("true",), env=env)])

threading.Thread(target=renew, daemon=True).start()
while True:
    for event in warden.events(60):
        if isinstance(event, Finished):
            print(event.run_id, event.result.reason, flush=True)
        if isinstance(event, WardenGone):
            import os
            print("gone", *event.unknown, "left", *kill_descendants(os.getpid(), 0.3), flush=True)
            sys.exit()
"""
"""A program that has a warden as the agent has one.

After each new deadline it runs `true`: the end of that run shows that the warden has read the deadline."""


class Marked:
    """Processes that carry a word of ours in their arguments."""

    def __init__(self) -> None:
        self.word = f"marked-{uuid.uuid4().hex}"

    def alive(self) -> list[int]:
        """Return the pids; a zombie has no arguments any more."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.word.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return [pid for pid in found if pid != os.getpid()]

    def tree(self) -> tuple[str, ...]:
        """Return the command of a tree of such processes."""
        return (sys.executable, "-I", "-S", "-c", TREE, self.word[::-1])

    def sleeper(self) -> tuple[str, ...]:
        """Return the command of one such process, with a child."""
        return ("/bin/sh", "-c", "sleep 300; true", self.word)

    def end(self) -> None:
        """Let a test that failed leave nothing."""
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def marked() -> Iterator[Marked]:
    """Return a marker; what still carries it at the end is killed."""
    marked = Marked()
    yield marked
    marked.end()


class Agent:
    """A process with a warden, to be killed or frozen."""

    def __init__(self, spool: Path, lease: float, *commands: tuple[str, ...], program: str = AGENT) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdin is not None
        # Not as arguments: it would carry the mark of its commands.
        self.process.stdin.write(json.dumps([str(spool), lease, commands]) + "\n")
        self.process.stdin.flush()
        self.warden = int(self.line())
        self.guard = parent_of(self.warden)

    def line(self) -> str:
        """Return the next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def renew(self, lease: float) -> None:
        """Let the lease end so many seconds from now; return when the warden has read it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{lease}\n")
        self.process.stdin.flush()
        assert self.line().startswith("10")

    def kill(self) -> None:
        """Kill it, whatever state it is in."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.kill()
        until(lambda: not is_running(self.warden) and not is_running(self.guard))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def read(journal: JournalReader) -> Result | None:
    with journal:
        while journal.read():
            pass
        return journal.result


# -- one run


def test_a_cancelled_command_is_asked_to_end(harness: Harness) -> None:
    run = harness.start("sleep", "300")
    harness.pid(run)
    harness.warden.kill([run])
    result = harness.result(run)
    assert (result.exit_code, result.signal, result.reason) == (None, signal.SIGTERM, "cancelled")


def test_a_command_may_end_in_its_own_way_when_asked(harness: Harness) -> None:
    run = harness.shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    harness.hear(lambda: any(frame.data == b"up\n" for frame in harness.frames(run)))
    harness.warden.kill([run])
    assert harness.output(run) == b"up\nbye\n"
    result = harness.results[run]
    assert (result.exit_code, result.signal, result.reason) == (5, None, "cancelled")


def test_a_command_is_asked_only_once(harness: Harness) -> None:
    """Many programs take a second SIGTERM as an order to drop everything."""
    script = """
import signal, time
count = 0
def note(*_):
    global count
    count += 1
signal.signal(signal.SIGTERM, note)
print("up", flush=True)
while not count:
    time.sleep(0.05)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.05)
print(count)
"""
    run = harness.start(sys.executable, "-I", "-S", "-c", script)
    harness.hear(lambda: harness.frames(run))
    harness.warden.kill([run])
    harness.warden.kill([run])
    assert harness.output(run) == b"up\n1\n"


def test_a_stopped_command_is_woken_to_be_asked(harness: Harness) -> None:
    run = harness.shell("trap 'exit 6' TERM; kill -STOP $$; sleep 300", grace=30.0)
    pid = harness.pid(run)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "T")
    harness.warden.kill([run])
    assert harness.result(run).exit_code == 6


def test_a_stopped_child_is_woken_too(harness: Harness, tmp_path: Path) -> None:
    child = "trap 'touch heard; exit' TERM; touch ready; kill -STOP $$; sleep 300"
    run = harness.start("setsid", "-w", "sh", "-c", child, cwd=str(tmp_path), grace=30.0)
    until((tmp_path / "ready").exists)
    harness.warden.kill([run])
    harness.result(run)
    assert (tmp_path / "heard").exists()


def test_a_timeout_ends_a_whole_tree_that_ignores_it(harness: Harness, marked: Marked) -> None:
    begun = time.monotonic()
    run = harness.start(*marked.tree(), timeout=8.0, grace=0.4)
    until(lambda: len(marked.alive()) == SIZE_OF_TREE)
    result = harness.result(run)
    assert time.monotonic() - begun > 8.3
    assert (result.signal, result.reason) == (signal.SIGKILL, "timeout")
    assert marked.alive() == []
    until(lambda: states_of_children(harness.warden.pid) == [])


def test_nothing_of_a_run_is_left_when_its_end_is_reported(harness: Harness, marked: Marked) -> None:
    """The leader goes at SIGTERM; the rest does not, and is waited for."""
    run = harness.shell(
        f"(trap '' TERM; setsid sh -c 'while :; do sleep 1; done' {marked.word}) & echo up; wait", grace=0.5
    )
    harness.hear(lambda: harness.frames(run))
    until(marked.alive)
    harness.warden.kill([run])
    result = harness.result(run)
    assert (result.signal, marked.alive()) == (signal.SIGTERM, [])


def test_a_cancel_touches_no_other_run(harness: Harness, marked: Marked) -> None:
    other = Marked()
    one = harness.start(*marked.tree(), grace=0.2)
    two = harness.start(*other.tree(), grace=0.2)
    until(lambda: len(marked.alive()) == len(other.alive()) == SIZE_OF_TREE)
    harness.warden.kill([one])
    harness.result(one)
    assert (len(marked.alive()), len(other.alive())) == (0, SIZE_OF_TREE)
    harness.warden.kill([two])
    harness.result(two)
    assert other.alive() == []


def test_a_cancel_of_an_unknown_run_is_ignored(harness: Harness) -> None:
    run = harness.start("true")
    harness.result(run)
    harness.warden.kill([run, 4711])
    assert harness.result(harness.start("true")).exit_code == 0


def test_a_run_can_be_cancelled_in_the_same_breath(harness: Harness) -> None:
    runs = [harness.start("sleep", "300") for _ in range(100)]
    harness.warden.kill(runs)
    harness.hear(lambda: len(harness.results) == 100)
    assert {result.reason for result in harness.results.values()} == {"cancelled"}


CHAIN = """
trap '' TERM
exec >/dev/null 2>&1
links=$1
link() { n=$((n + 1)); [ $((n % 20)) -ne 0 ] || echo $n >> "$links"; [ $n -gt 50000 ] || link & }
link
"""
"""Each process lives only long enough to start the next: so a list of all misses each of them. What it
writes shows that it lives."""


def test_what_forks_faster_than_it_can_be_found_dies_with_the_warden(tmp_path: Path, marked: Marked) -> None:
    harness = Harness(tmp_path)
    links = tmp_path / "links"
    harness.result(harness.start("/bin/sh", "-c", CHAIN, marked.word, str(links)))
    until(links.exists)
    begun = time.monotonic()
    assert harness.warden.stop(0.2)
    assert time.monotonic() - begun < 40
    assert harness.gone() == WardenGone((), 0)
    written = links.read_text()
    assert [marked.alive() for _ in range(20)] == [[]] * 20
    assert links.read_text() == written
    assert int(written.split()[-1]) < 50_000, "it ended by itself"
    harness.warden.close()


# -- the lease


@pytest.mark.parametrize("passed", [-math.inf, 0.0, "now", None])
def test_nothing_starts_after_the_deadline_or_without_one(tmp_path: Path, passed: float | str | None) -> None:
    harness = Harness(tmp_path, deadline=None)
    if passed is not None:
        harness.warden.set_deadline(boottime() if isinstance(passed, str) else passed)
    run = harness.start("touch", str(tmp_path / "started"))
    result = harness.result(run)
    assert (result.reason, result.exit_code, result.started_at) == ("lease", None, None)
    assert result.message == "not started: the lease was over"
    assert read(harness.warden.journal(run)) == result
    assert not (tmp_path / "started").exists()
    harness.close()


def test_the_deadline_ends_everything_and_the_next_allows_starts(harness: Harness, marked: Marked) -> None:
    done = harness.shell(
        f"(trap '' TERM; exec sh -c 'while :; do sleep 1; done' {marked.word} >/dev/null 2>&1) & exit 0"
    )
    harness.result(done)
    run = harness.start(*marked.tree(), grace=60.0)
    until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
    deadline = boottime() + 0.3
    harness.warden.set_deadline(deadline, grace=0.2)
    result = harness.result(run)
    assert boottime() > deadline + 0.2
    assert (result.signal, result.reason) == (signal.SIGKILL, "lease")
    until(lambda: not marked.alive())  # what the finished run left behind goes, too
    assert harness.results[done].reason is None

    assert harness.result(harness.start("true")).reason == "lease"
    harness.warden.set_deadline(boottime() + 60)
    assert harness.result(harness.start("true")).exit_code == 0


def test_a_start_after_the_deadline_waits_for_the_old_commands(harness: Harness, tmp_path: Path) -> None:
    """A renewed lease comes at once; the ones it is too late for still have their grace."""
    old = harness.shell(
        "trap '' TERM; echo up; while :; do date +%s.%N >last; sleep 0.02; done", cwd=str(tmp_path)
    )
    harness.hear(lambda: harness.frames(old))
    harness.warden.set_deadline(boottime(), grace=0.5)
    time.sleep(0.2)  # or both deadlines may come in one message, and the first is never over
    harness.warden.set_deadline(boottime() + 60)
    new = harness.shell("date +%s.%N >first", cwd=str(tmp_path))
    assert harness.result(new).exit_code == 0
    assert harness.results[old].reason == "lease"
    assert float((tmp_path / "first").read_text()) > float((tmp_path / "last").read_text() or 0)


def test_a_deadline_that_is_moved_in_time_never_comes(harness: Harness) -> None:
    run = harness.start("sleep", "7")
    end = time.monotonic() + 6
    while time.monotonic() < end:
        harness.warden.set_deadline(boottime() + 5)
        harness.listen(0.05)
    assert harness.result(run).exit_code == 0


def test_the_deadline_passes_for_a_frozen_agent(tmp_path: Path, marked: Marked) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.tree(), marked.sleeper()) as agent:
        until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
        agent.renew(4.0)
        agent.process.send_signal(signal.SIGSTOP)
        assert len(marked.alive()) == SIZE_OF_TREE + 1
        until(lambda: marked.alive() == [], 6.0)
        assert is_running(agent.warden)
        agent.process.send_signal(signal.SIGCONT)
        assert {agent.line(), agent.line()} == {"1 lease", "2 lease"}


# -- the agent's death


def test_after_the_agents_death_everything_is_gone_before_the_lease(tmp_path: Path, marked: Marked) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.tree(), marked.sleeper(), ("echo", "over")) as agent:
        until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
        assert agent.line() == "3 None"
        agent.process.kill()
        until(lambda: marked.alive() == [] and not is_running(agent.warden))

    until(lambda: not is_running(agent.guard))
    (spool,) = abandoned(tmp_path / "spool")
    assert (spool.node_id, spool.runs()) == ("web-1-0000000b", [1, 2, 3])
    results = [read(spool.journal(run)) for run in spool.runs()]
    assert [result and result.reason for result in results] == ["agent gone", "agent gone", None]
    with spool.journal(3) as journal:
        assert b"".join(frame.data for frame in journal.read()) == b"over\n"
    spool.remove()
    assert abandoned(tmp_path / "spool") == []
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_spool_stays_locked_until_the_warden_has_finished(tmp_path: Path, marked: Marked) -> None:
    spool = tmp_path / "spool"
    with Agent(
        spool, 3600.0, ("sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", marked.word)
    ) as agent:
        until(marked.alive)
        assert abandoned(spool) == []
        agent.kill()
        assert is_running(agent.warden)
        assert abandoned(spool) == []
        until(lambda: not is_running(agent.warden) and not is_running(agent.guard))
        (left,) = abandoned(spool)
        assert marked.alive() == []
        assert abandoned(spool) == []  # ours now
        left.close()
        (left,) = abandoned(spool)
        left.remove()


def test_a_frozen_agents_death_is_noticed_too(tmp_path: Path, marked: Marked) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.sleeper()) as agent:
        until(marked.alive)
        agent.process.send_signal(signal.SIGSTOP)
        agent.process.kill()
        until(lambda: marked.alive() == [], 2.0)


def test_a_helper_that_keeps_the_agents_socket_open_hides_no_death(tmp_path: Path, marked: Marked) -> None:
    """The socket alone would say nothing: only the pidfd does."""
    script = AGENT.replace(
        "print(warden.pid, flush=True)",
        "import os, subprocess; os.set_inheritable(warden.fileno(), True)\n"
        "subprocess.Popen(['sleep', '30'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(warden.pid, flush=True)",
    )
    with Agent(tmp_path / "spool", 3600.0, marked.sleeper(), program=script) as agent:
        until(marked.alive)
        agent.kill()
        until(lambda: marked.alive() == [] and not is_running(agent.warden), 2.0)


# -- the guard


@pytest.mark.parametrize(
    "dying", [("guard",), ("agent", "guard"), ("agent", "warden"), ("warden", "guard")], ids="+".join
)
def test_of_agent_warden_and_guard_the_last_one_ends_the_commands(
    tmp_path: Path, marked: Marked, dying: tuple[str, ...]
) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.tree(), marked.sleeper()) as agent:
        until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
        pids = {"agent": agent.process.pid, "warden": agent.warden, "guard": agent.guard}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another die
            for who in dying:
                os.kill(pids[who], number)
        until(lambda: not marked.alive(), 2.0)
        if "agent" not in dying:
            lines = [agent.line() for _ in range(1 if "warden" in dying else 3)]
            assert lines[-1] == ("gone 1 2 left" if "warden" in dying else "gone left")
            assert set(lines[:-1]) <= {"1 guard gone", "2 guard gone"}
        until(lambda: not any(is_running(pids[who]) for who in ("warden", "guard")))


def test_the_deadline_passes_for_a_frozen_agent_and_a_frozen_warden(tmp_path: Path, marked: Marked) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.tree(), marked.sleeper()) as agent:
        until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
        begun = boottime()
        agent.renew(4.0)
        for pid in (agent.process.pid, agent.warden):
            os.kill(pid, signal.SIGSTOP)
        until(lambda: marked.alive() == [], 7.0)
        assert boottime() - begun > 4.0
        for pid in (agent.process.pid, agent.warden):
            os.kill(pid, signal.SIGCONT)
        assert {agent.line(), agent.line()} == {"1 lease", "2 lease"}


def test_what_the_guard_killed_is_lost_and_not_failed(harness: Harness) -> None:
    """The lease was renewed while the warden was frozen; the guard had killed its commands before."""
    run = harness.start("sleep", "300")
    pid = harness.pid(run)
    harness.warden.set_deadline(boottime() + 3, grace=0.2)
    time.sleep(1)  # it has read this
    os.kill(harness.warden.pid, signal.SIGSTOP)
    until(lambda: not is_running(pid))
    harness.warden.set_deadline(boottime() + 60)
    os.kill(harness.warden.pid, signal.SIGCONT)
    result = harness.result(run)
    assert (result.reason, result.signal) == ("lease", signal.SIGTERM)


def test_a_signal_of_another_is_no_matter_of_the_lease(harness: Harness) -> None:
    harness.warden.set_deadline(boottime() + 60)
    run = harness.start("sleep", "300")
    os.kill(harness.pid(run), signal.SIGKILL)
    result = harness.result(run)
    assert (result.reason, result.signal) == (None, signal.SIGKILL)


def test_a_frozen_guard_blocks_no_process(tmp_path: Path, marked: Marked) -> None:
    harness = Harness(tmp_path, deadline=boottime() + 60)
    guard = parent_of(harness.warden.pid)
    os.kill(guard, signal.SIGSTOP)
    harness.warden.set_deadline(boottime() + 0.2, grace=0.1)
    harness.listen(0.1)
    harness.warden.set_deadline(boottime() + 60)
    run = harness.start(*marked.tree())
    until(lambda: len(marked.alive()) == SIZE_OF_TREE)
    os.kill(guard, signal.SIGCONT)
    harness.listen(0.5)
    assert len(marked.alive()) == SIZE_OF_TREE  # it woke to a deadline that had been moved
    os.kill(guard, signal.SIGSTOP)
    harness.warden.set_deadline(boottime(), grace=0.1)
    assert harness.result(run).reason == "lease"
    until(lambda: not marked.alive())
    os.kill(guard, signal.SIGCONT)
    harness.close()


# -- the warden's own end


def test_stop_ends_the_commands_and_hands_over_their_results(tmp_path: Path, marked: Marked) -> None:
    harness = Harness(tmp_path)
    polite = harness.shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    rude = harness.start(*marked.tree(), grace=60.0)
    harness.hear(lambda: harness.frames(polite))
    until(lambda: len(marked.alive()) == SIZE_OF_TREE)
    assert harness.warden.stop(0.5)
    assert marked.alive() == []
    assert harness.gone() == WardenGone((), 0)
    assert harness.output(polite) == b"up\nbye\n"
    assert [(harness.results[run].reason, harness.results[run].signal) for run in (polite, rude)] == [
        ("stopped", None),
        ("stopped", signal.SIGKILL),
    ]
    with pytest.raises(BrokenPipeError):
        harness.start("true")
    path = harness.warden.spool.path
    for run in (polite, rude):
        harness.warden.forget(run)
    harness.warden.close()
    assert not path.exists()


def test_stop_hastens_what_is_being_cancelled(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    run = harness.shell("trap '' TERM; echo up; while :; do sleep 0.05; done", grace=600.0)
    harness.hear(lambda: harness.frames(run))
    harness.warden.kill([run])
    begun = time.monotonic()
    assert harness.warden.stop(0.2)
    assert time.monotonic() - begun < 40
    harness.gone()
    assert (harness.results[run].reason, harness.results[run].signal) == ("cancelled", signal.SIGKILL)
    harness.warden.close()


def test_more_results_than_the_socket_holds_survive_a_stop(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    jobs = [Job(run_id=run_id, argv=("/no" + "x" * 2000,), env=ENV) for run_id in range(1, 501)]
    harness.warden.start(jobs)
    assert harness.warden.stop(1.0)
    assert harness.gone() == WardenGone((), 0)
    assert sorted(harness.results) == list(range(1, 501))
    assert {result.reason for result in harness.results.values()} <= {"spawn failed", "stopped"}
    assert len([event for event in harness.events if isinstance(event, Finished)]) == 500
    harness.warden.close()
    (left,) = abandoned(tmp_path / "spool")  # they were not forgotten
    assert len(left.runs()) == 500
    left.close()


def test_the_agent_sweeps_up_after_a_killed_warden(tmp_path: Path, marked: Marked) -> None:
    with Agent(tmp_path / "spool", 3600.0, marked.tree(), marked.sleeper(), ("true",)) as agent:
        until(lambda: len(marked.alive()) == SIZE_OF_TREE + 1)
        assert agent.line() == "3 None"
        os.kill(agent.warden, signal.SIGKILL)
        assert agent.line() == "gone 1 2 left"
        assert marked.alive() == []
    (spool,) = abandoned(tmp_path / "spool")
    assert [read(spool.journal(run)) for run in (1, 2)] == [None, None]
    spool.close()


def test_a_warden_that_does_not_answer_is_killed_and_reported(tmp_path: Path) -> None:
    harness = Harness(tmp_path, silence=1.5)
    harness.result(harness.start("true"))
    os.kill(harness.warden.pid, signal.SIGSTOP)
    run = harness.start("true")
    harness.warden.set_deadline(boottime() + 60)
    assert harness.gone() == WardenGone((run,), -signal.SIGKILL)
    harness.warden.close()


def test_a_sender_is_not_held_up_for_ever(tmp_path: Path) -> None:
    harness = Harness(tmp_path, silence=0.5)
    os.kill(harness.warden.pid, signal.SIGSTOP)
    run = harness.start("true", stdin=b"x" * 4_000_000)
    assert harness.gone() == WardenGone((run,), -signal.SIGKILL)
    harness.warden.close()


def test_a_slow_but_living_warden_is_not_taken_for_dead(tmp_path: Path) -> None:
    harness = Harness(tmp_path, silence=1.8)
    for _ in range(4):
        harness.warden.set_deadline(boottime() + 60)
        os.kill(harness.warden.pid, signal.SIGSTOP)
        until(lambda: harness.listen(0.5) == [])
        os.kill(harness.warden.pid, signal.SIGCONT)
        harness.result(harness.start("true"))
    harness.close()


def test_an_error_in_the_warden_leaves_nothing_running(
    tmp_path: Path, marked: Marked, capfd: pytest.CaptureFixture[str]
) -> None:
    harness = Harness(tmp_path)
    run = harness.start(*marked.tree())
    until(lambda: len(marked.alive()) == SIZE_OF_TREE)
    harness.warden._send(b'{"do": "something else"}\n')
    assert harness.gone() == WardenGone((run,), 70)
    assert marked.alive() == []
    assert "the agent asks for 'something else'" in capfd.readouterr().err
    harness.warden.close()
