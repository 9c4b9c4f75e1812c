"""What one account tries against the warden, and so against all others: it goes on starting and ending."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from dcron.model import RunState
from dcron.warden.cgroups import mount_point
from dcron.warden.client import Job, WardenGone
from dcron.warden.linux import boottime
from dcron.warden.protocol import StartRequest, start_message
from tests.support.cluster import Cluster, processes_with, wait_for
from tests.support.harness import ENV, Harness
from tests.support.patience import PATIENCE, until

ACCOUNT = "nobody" if os.geteuid() == 0 else None
"""Another account than the agent's, where there may be one."""
OTHER = "daemon" if os.geteuid() == 0 else None
"""And a third."""

THIEF = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int mine = open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK);
    time_t end = time(0) + atoi(arguments[1]);
    char byte;
    if (mine < 0) return 3;
    for (unsigned i = 0; (i & 1023) || time(0) < end; i++) {
        write(1, "x", 1);
        for (volatile unsigned pause = i % 64 * 3000; pause; pause--);
        if (read(mine, &byte, 1) == 1) usleep(20000);  /* if the warden waits for it, let it wait */
    }
    return 0;
}
"""
THIEF_IN_PYTHON = """
import os, sys, time
mine = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for i in range(1000):
        os.write(1, b"x")
        try:
            os.read(mine, 1)
            time.sleep(0.02)
        except BlockingIOError:
            pass
"""
LEASE = """
import fcntl, os, signal, sys, time
os.setresuid(*[os.stat(sys.argv[1]).st_uid] * 3)
signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks for the lease back
file = os.open(sys.argv[1], os.O_WRONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(120)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a directory of the other account."""
    path = Path(tempfile.mkdtemp())
    if ACCOUNT:
        shutil.chown(path, ACCOUNT)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def thief(folder: Path, seconds: int) -> tuple[str, ...]:
    """Return a command that takes its own output back before the warden can read it."""
    compiler = shutil.which("cc")
    if compiler is None:
        return (sys.executable, "-I", "-S", "-c", THIEF_IN_PYTHON, str(seconds))
    (folder / "thief.c").write_text(THIEF)
    subprocess.run([compiler, "-O1", "-w", "-o", folder / "thief", folder / "thief.c"], check=True)
    return (str(folder / "thief"), str(seconds))


def slowest_neighbour(harness: Harness, seconds: float) -> float:
    """Run another account's command again and again; return how long the slowest took."""
    slowest = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        assert harness.result(harness.start("true", run_id=harness.last + 1000)).exit_code == 0
        slowest = max(slowest, time.monotonic() - begun)
    return slowest


def waits_for_a_pipe(harness: Harness, seconds: float) -> bool:
    """Return whether the warden is seen to sleep in a read of a pipe, which only its victim could end."""
    place = Path(f"/proc/{harness.warden.pid}/wchan")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if "pipe" in place.read_text():
            return True
        harness.listen(0.002)
    return False


# -- its output


@pytest.mark.long
def test_who_steals_its_own_output_holds_up_nothing(harness: Harness, folder: Path) -> None:
    command = thief(folder, 30)
    runs = [harness.start(*command, user=ACCOUNT, grace=0.2) for _ in range(2)]
    for run in runs:
        harness.pid(run)
    assert not waits_for_a_pipe(harness, 8)
    assert slowest_neighbour(harness, 2) < 2
    harness.warden.kill(runs)
    assert {harness.result(run).reason for run in runs} == {"cancelled"}


@pytest.mark.long
def test_who_steals_the_output_of_its_background_holds_up_nothing(harness: Harness, folder: Path) -> None:
    """Its leader has ended: now the output is thrown away, by another call of the kernel."""
    command = " ".join(f"'{each}'" for each in thief(folder, 8))
    assert harness.result(harness.shell(f"{command} & {command} & exit 0", user=ACCOUNT)).exit_code == 0
    assert not waits_for_a_pipe(harness, 6)
    assert slowest_neighbour(harness, 2) < 2


def test_output_that_never_ends_after_its_last_writer_is_read_by_turns(harness: Harness) -> None:
    """A pipe without a writer is read to its end. It has none: who can read it can open it to write."""
    script = """
import os, time
mine = os.open("/proc/self/fd/1", os.O_RDONLY)
os.close(1)
time.sleep(0.2)
end = time.monotonic() + 3
while time.monotonic() < end:
    out = os.open(f"/proc/self/fd/{mine}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(out, b"x" * 65536)
    except BlockingIOError:
        pass
    os.close(out)
"""
    run = harness.start(sys.executable, "-I", "-S", "-c", script)
    harness.pid(run)
    assert slowest_neighbour(harness, 2) < 2
    assert harness.result(run).exit_code == 0


# -- its program


@pytest.fixture
def held(folder: Path) -> Iterator[Path]:
    """Return a program on which its owner holds a lease: executing it waits until the kernel breaks that."""
    program = folder / "program"
    shutil.copy("/bin/true", program)
    program.chmod(0o755)
    if ACCOUNT:
        shutil.chown(program, ACCOUNT)
    holder = subprocess.Popen([sys.executable, "-I", "-S", "-c", LEASE, str(program)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    if holder.stdout.readline() != b"held\n":
        pytest.skip("this file system has no leases")
    yield program
    with holder:
        holder.kill()


def test_a_program_that_cannot_be_executed_yet_holds_up_nothing(harness: Harness, held: Path) -> None:
    run = harness.start(str(held), user=ACCOUNT, grace=0.2)
    assert slowest_neighbour(harness, 3) < 2
    assert run not in harness.results
    harness.warden.kill([run])
    result = harness.result(run)
    assert (result.reason, result.started_at, result.exit_code) == ("cancelled", None, None)
    assert result.message == "cancelled before it was started"


def test_a_timeout_and_a_lease_end_what_has_not_begun(harness: Harness, held: Path) -> None:
    late = harness.start(str(held), user=ACCOUNT, grace=0.1, timeout=0.5)
    result = harness.result(late)
    assert (result.reason, result.started_at) == ("timeout", None)
    run = harness.start(str(held), user=ACCOUNT)
    harness.listen(0.5)
    harness.warden.set_deadline(boottime(), grace=0.1)
    result = harness.result(run)
    assert (result.reason, result.started_at) == ("lease", None)


def test_a_child_that_is_killed_on_its_way_has_certainly_not_begun(harness: Harness, held: Path) -> None:
    run = harness.start(str(held), user=ACCOUNT)
    children = Path(f"/proc/{harness.warden.pid}/task/{harness.warden.pid}/children")
    until(lambda: harness.listen() or children.read_text())
    os.kill(int(children.read_text()), signal.SIGKILL)
    result = harness.result(run)
    assert (result.reason, result.started_at, result.exit_code) == ("spawn failed", None, 126)
    assert result.message == "its process was killed before the program began"


# -- its processes

ATTACK_SECONDS = float(os.environ.get("DCRON_ATTACK_SECONDS", "10"))
"""How long all attacks go on together. Read here: no test sees the variables of dcron."""

ESCAPES = {
    "setsid": 'setsid env -i sh -c "{sleep} & " &',
    "nothing in its environment": 'env -i setsid sh -c "env -i setsid {sleep} & " & ',
    "another run's id": 'setsid env -i DCRON_RUN_ID=50 sh -c "{sleep} & " &',
    "a user namespace": 'setsid env -i unshare --user --map-root-user sh -c "{sleep} & " &',
    "a pid namespace": 'setsid env -i unshare --user --map-root-user --pid --fork sh -c "{sleep}" &',
}


@pytest.mark.parametrize("ending", ["timeout", "cancel"])
@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_outlives_its_run(harness: Harness, escape: str, ending: str) -> None:
    """Neither what left its session, its parents and its environment; and a neighbour lives on."""
    if "unshare" in ESCAPES[escape] and subprocess.run(["unshare", "--user", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    seconds = str(100_000 + int.from_bytes(os.urandom(3), "big"))
    script = ESCAPES[escape].format(sleep=f"sleep {seconds}") + " sleep 300"
    neighbour = harness.start("sleep", "300", user=OTHER, run_id=50)
    harness.pid(neighbour)
    run = harness.shell(script, user=ACCOUNT, grace=0.2, timeout=4.0 if ending == "timeout" else None)
    wait_for(lambda: harness.listen(0.01) or sleepers(seconds), 10, "it got away")
    wait_for(lambda: sleepers(seconds), 10, "it got away")
    time.sleep(0.3)  # and lost its parents
    if ending == "cancel":
        harness.warden.kill([run])
    assert harness.result(run).reason in ("timeout", "cancelled")
    assert sleepers(seconds) == []
    assert neighbour not in harness.results


def mounted() -> str:
    """Return where cgroup version 2 is mounted; a directory that does not exist without it."""
    return mount_point(Path("/proc/self/mountinfo").read_text()) or "/no-cgroups"


@pytest.mark.parametrize("leaves", ["its session", "its session and its cgroup"])
@pytest.mark.parametrize("last", ["ends", "is killed"])
def test_nothing_of_the_agents_own_account_outlives_the_last_run_it_can_come_from(
    harness: Harness, leaves: str, last: str
) -> None:
    seconds = str(100_000 + int.from_bytes(os.urandom(3), "big"))
    moves = f"echo \\$\\$ > {mounted()}/cgroup.procs;" if "cgroup" in leaves else ""
    neighbour = harness.shell("trap 'exit 0' USR1; while :; do sleep 0.1; done", run_id=50, grace=0.1)
    harness.pid(neighbour)
    escape = f'setsid env -i PATH="$PATH" sh -c "({moves} sleep {seconds}) & " 2>/dev/null & sleep 300'
    run = harness.shell(escape, run_id=51, grace=0.2)
    wait_for(lambda: harness.listen(0.01) or sleepers(seconds), 10, "it got away")
    wait_for(lambda: sleepers(seconds), 10, "it got away")
    time.sleep(0.3)  # and lost its parents
    harness.warden.kill([run])
    assert harness.result(run).reason == "cancelled"
    if not moves and Path(mounted()).exists():
        assert sleepers(seconds) == []
    assert neighbour not in harness.results
    if last == "ends":
        os.kill(harness.pid(neighbour), signal.SIGUSR1)
    else:
        harness.warden.kill([neighbour])
    harness.result(neighbour)
    wait_for(lambda: harness.listen(0.01) or not sleepers(seconds), 10, "it is ended")
    wait_for(lambda: not sleepers(seconds), 10, "it is ended")


def test_the_background_of_runs_that_ended_by_themselves_lives_on(harness: Harness) -> None:
    seconds = str(100_000 + int.from_bytes(os.urandom(3), "big"))
    neighbour = harness.start("sleep", "300", run_id=50)
    harness.result(harness.shell(f'setsid env -i sh -c "sleep {seconds} & "', run_id=51))
    wait_for(lambda: sleepers(seconds), 10, "it got away")
    assert harness.result(harness.shell("true", run_id=52)).exit_code == 0
    harness.warden.kill([neighbour])
    harness.result(neighbour)
    harness.listen(1.5)
    assert sleepers(seconds)


def sleepers(seconds: str) -> list[int]:
    return [pid for pid in processes_with(seconds) if _program(pid) == "sleep"]


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


# -- silence


def test_a_frozen_warden_is_noticed_by_who_waits_for_news_without_end(tmp_path: Path) -> None:
    harness = Harness(tmp_path, silence=1.5)
    harness.result(harness.start("true"))
    until(
        lambda: (
            harness.warden._deadlines_sent == harness.warden._deadlines_acknowledged
            or harness.listen(0.1) is None
        )
    )
    heard: list[object] = []

    def wait() -> None:
        for _ in range(3):
            heard.extend(harness.warden.events(None))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)  # it waits, with nothing asked
    os.kill(harness.warden.pid, signal.SIGSTOP)
    harness.warden.set_deadline(math.inf)
    waiting.join(PATIENCE)
    is_over = not waiting.is_alive()
    with suppress(ProcessLookupError):
        os.kill(harness.warden.pid, signal.SIGCONT)
    waiting.join(PATIENCE)
    assert is_over
    assert heard == [WardenGone((), -signal.SIGKILL)]
    harness.warden.close()


@pytest.mark.long
def test_a_node_whose_warden_is_frozen_is_replaced_within_thirty_seconds(team: Cluster) -> None:
    agent = team.start_agent("one", lease=20)
    team.wait_until_alive(1)
    (before,) = team.alive()
    marker = f"marked-{uuid.uuid4().hex}"
    team.crontab.run(team.add("long", "0 0 29 2 *", f"sleep 300; : {marker}"))
    wait_for(lambda: team.runs(RunState.RUNNING), 10, "it runs")
    os.kill(agent.warden(), signal.SIGSTOP)
    wait_for(lambda: any(node.id != before.id for node in team.alive()), 30, "a new node")
    assert processes_with(marker) == []
    team.crontab.run(team.add("next", "0 0 29 2 *", "true"))
    wait_for(lambda: team.runs(RunState.SUCCEEDED, task="next"), 10, "it starts")
    assert team.runs(RunState.LOST, task="long")


# -- a start that is not what it should be

GOOD = StartRequest(
    run_id=1,
    argv=("true",),
    env=dict(ENV),
    cwd=None,
    identity=None,
    stdin=None,
    timeout=None,
    grace=1.0,
    umask=0o022,
    limits={},
    fault=None,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("timeout", -1),
        ("timeout", 1e300),
        ("timeout", 10**400),
        ("timeout", "5"),
        ("timeout", True),
        ("grace", math.nan),
        ("grace", None),
        ("argv", "true"),
        ("argv", ["true", 5]),
        ("argv", ["a\0b"]),
        ("argv", ["\ud800"]),
        ("argv", []),
        ("argv", None),
        ("env", []),
        ("env", {"A": 1}),
        ("env", {"A": None}),
        ("env", {"A=B": "x"}),
        ("env", {"A": "x\0y"}),
        ("cwd", 5),
        ("cwd", "\0"),
        ("stdin", 5),
        ("stdin", "not base64: a"),
        ("umask", -1),
        ("umask", 1.5),
        ("limits", None),
        ("limits", {"mem": "1"}),
        ("limits", {"mem": -1}),
        ("limits", {"mem": math.nan}),
        ("limits", {"other": 1}),
        ("identity", [0]),
        ("identity", ["root", 0, []]),
        ("identity", [-1, 0, []]),
        ("identity", [0, 0, [1 << 40]]),
        ("identity", [0, 0, None]),
        ("fault", 5),
    ],
)
def test_a_start_that_is_not_one_fails_alone(harness: Harness, name: str, value: Any) -> None:
    neighbour = harness.start("sleep", "300", run_id=50, timeout=1.0)
    message = {**start_message(GOOD), name: value}
    harness.warden._send(json.dumps(message).encode() + b"\n")
    result = harness.result(1)
    assert (result.exit_code, result.reason, result.started_at) == (126, "spawn failed", None)
    assert result.message is not None
    assert "cannot" in result.message or "limit" in result.message
    assert harness.result(neighbour).reason == "timeout"


@pytest.mark.parametrize(
    "job",
    [
        {"timeout": math.nan},
        {"env": {"A": b"x"}},
        {"env": [1]},
        {"user": ["root"]},
        {"user": "a\0b"},
        {"user": "9" * 5000},
        {"stdin": "text"},
        {"argv": 5},
        {"limits": 5},
    ],
    ids=str,
)
def test_a_job_that_cannot_be_asked_for_fails_alone(harness: Harness, job: dict[str, Any]) -> None:
    harness.warden.start([Job(**{"run_id": 1, "argv": ("true",), "env": ENV, **job})])
    result = harness.result(1)
    assert (result.exit_code, result.reason, result.started_at) == (126, "spawn failed", None)
    assert harness.result(harness.start("true", run_id=2)).exit_code == 0


def test_a_start_without_what_it_needs_fails_alone(harness: Harness) -> None:
    harness.warden._send(b'{"do": "start", "run_id": 1}\n')
    assert harness.result(1).exit_code == 126
    assert harness.result(harness.start("true", run_id=2)).exit_code == 0


# -- all together


def test_under_attack_others_start_in_time_and_no_run_is_lost(
    team: Cluster, folder: Path, held: Path
) -> None:
    """One account steals its output, holds leases on its programs, and runs away from its timeouts."""
    seconds = ATTACK_SECONDS
    mark = str(100_000 + int.from_bytes(os.urandom(3), "big"))
    agent = team.start_agent("one", lease=20, slots=16)
    team.wait_until_alive(1)
    attacks = {
        "thief": " ".join(thief(folder, 3)),
        "held": str(held),
        "runaway": ESCAPES["nothing in its environment"].format(sleep=f"sleep {mark}") + " sleep 300",
    }
    for name, command in attacks.items():
        team.add(name, "@every 2s", command, user=ACCOUNT, cwd="/", timeout=1.0 if name == "runaway" else 5.0)
    team.add("neighbour", "@every 1s", team.entry("$(date +%s.%N)"))
    time.sleep(seconds)
    warden = agent.warden()
    task = team.crontab.get("neighbour")
    team.crontab.pause(task)
    late = [
        float(at) - datetime.strptime(due, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        for _, due, _, at in team.ledger()
    ]
    assert len(late) >= seconds / 2
    assert median(late) <= 1.0
    assert agent.warden() == warden
    assert team.runs(RunState.LOST) == []
    assert team.runs(task="runaway")
    for name in attacks:
        team.crontab.pause(team.crontab.get(name))
    wait_for(lambda: not team.runs(RunState.RUNNING, RunState.CLAIMED, task="runaway"), 20, "all are over")
    assert sleepers(mark) == []
