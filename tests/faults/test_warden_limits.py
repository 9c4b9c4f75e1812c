"""Limits under a real warden: each bites, in the command and in what it starts, or says why it cannot."""

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from dcron.warden.cgroups import mount_point
from tests.faults.test_warden import needs_root
from tests.support.harness import Harness
from tests.support.patience import until

MIB = 1 << 20
ROOMY = 256 * MIB
"""Address space in which an interpreter starts, and `TOO_MUCH` finds no room."""
TOO_MUCH = "try:\n bytearray(400 << 20)\nexcept MemoryError: print('no memory')\nelse: print('had it')"
OWN_USER = "nobody" if os.geteuid() == 0 else None
"""Root's processes are not counted."""


def limits_of(text: str) -> dict[str, tuple[str, str]]:
    """Read /proc/PID/limits: soft and hard by name. Two spaces or more are between the columns."""
    rows = [line.split("  ") for line in text.splitlines()[1:]]
    columns = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {name: (soft, hard) for name, soft, hard, *_ in columns}


CGROUP = "dcron-run-"


def counting_cgroup(text: str) -> Path | None:
    """Return the cgroup above that of a run, if it counts memory and processes. `text`: /proc/self/cgroup."""
    paths = [line[3:] for line in text.splitlines() if line.startswith("0::") and CGROUP in line]
    mounted = mount_point(Path("/proc/self/mountinfo").read_text())
    if not paths or not mounted:
        return None
    above = Path(mounted + paths[0]).parent
    counted = (above / "cgroup.subtree_control").read_text().split()
    return above if {"memory", "pids"} <= set(counted) else None


def test_every_limit_is_set_and_nothing_else_is_changed(harness: Harness) -> None:
    limits = {"mem": ROOMY, "cpu-time": 60, "files": 77, "procs": 1000, "file-size": 5 * MIB, "core": 3 * MIB}
    without = limits_of(harness.output(harness.start("cat", "/proc/self/limits")).decode())
    run = harness.shell("cat /proc/self/limits; cat /proc/self/cgroup; true", limits=limits)
    text, _, cgroup = harness.output(run).decode().rpartition("Max realtime timeout")
    found = limits_of(text)
    changed = {name: both for name, both in found.items() if both != without[name]}
    expected = {
        "Max cpu time": ("60", "65"),
        "Max open files": ("77", "77"),
        "Max file size": (str(5 * MIB),) * 2,
        "Max core file size": (str(3 * MIB),) * 2,
    }
    if counting_cgroup(cgroup.partition("\n")[2]) is None:
        expected |= {"Max address space": (str(ROOMY),) * 2, "Max processes": ("1000", "1000")}
    assert changed == expected


def test_a_job_without_limits_has_the_agents_own(harness: Harness) -> None:
    """Those at the moment of its start, untouched."""
    agents = Path("/proc/self/limits").read_text()
    assert harness.output(harness.start("cat", "/proc/self/limits")).decode() == agents
    harness.result(harness.start("true", limits={"files": 20, "core": 0, "cpu-time": 5}))
    assert harness.output(harness.start("cat", "/proc/self/limits")).decode() == agents
    assert Path(f"/proc/{harness.warden.pid}/limits").read_text() == agents


def test_memory_above_its_limit_is_not_given_not_even_to_a_child(harness: Harness) -> None:
    itself = [sys.executable, "-c", TOO_MUCH]
    assert harness.output(harness.start(*itself)) == b"had it\n"
    for argv in (itself, ["sh", "-c", '"$@"; true', "sh", *itself]):
        run = harness.start(*argv, limits={"mem": ROOMY})
        killed = harness.result(run).message == "out of memory: its limit is 256M"  # in a cgroup
        assert killed or harness.output(run) == b"no memory\n"


def test_an_endless_loop_is_over_with_its_cpu_time(harness: Harness) -> None:
    result = harness.result(harness.shell("while :; do :; done", limits={"cpu-time": 1, "core": 0}))
    assert (result.exit_code, result.signal, result.reason) == (None, signal.SIGXCPU, None)
    # The kernel checks the limit by its ticks, but reports a measured time: on a busy machine they differ.
    assert 0.5 < result.cpu < 5


def test_who_does_not_heed_the_end_of_its_cpu_time_is_killed_after_a_grace(harness: Harness) -> None:
    """Its hard limit is where the command has lowered it: the kernel's part, quicker than by five seconds."""
    script = "trap '' XCPU; ulimit -Ht 2; while :; do :; done"
    result = harness.result(harness.shell(script, limits={"cpu-time": 1}))
    assert result.signal == signal.SIGKILL


def test_no_more_files_are_open_than_allowed(harness: Harness) -> None:
    script = "import os\nwhile True: print(os.open('/dev/null', os.O_RDONLY), flush=True)"
    run = harness.start(sys.executable, "-c", script, limits={"files": 20})
    assert harness.output(run).split()[-1] == b"19"
    assert b"Too many open files" in harness.output(run, "err")


def test_a_file_grows_to_its_limit_and_no_further(harness: Harness, tmp_path: Path) -> None:
    file = tmp_path / "file"
    argv = ("dd", "if=/dev/zero", f"of={file}", "bs=1000", "count=100")
    result = harness.result(harness.start(*argv, limits={"file-size": 4500, "core": 0}))
    assert (result.signal, result.reason) == (signal.SIGXFSZ, None)
    assert file.stat().st_size == 4500


def test_output_is_not_a_file(harness: Harness) -> None:
    run = harness.start("head", "-c", "100000", "/dev/zero", limits={"file-size": 10})
    assert len(harness.output(run)) == 100_000


def test_no_more_processes_are_started_than_allowed(harness: Harness) -> None:
    run = harness.shell("/bin/true & wait; echo forked", user=OWN_USER, limits={"procs": 1})
    result = harness.result(run)
    assert (result.exit_code, harness.output(run)) == (2, b"")
    assert b"fork" in harness.output(run, "err")
    run = harness.shell("/bin/true & wait; echo forked", user=OWN_USER)
    assert harness.output(run) == b"forked\n"


@needs_root
def test_limits_and_another_user_go_together(harness: Harness) -> None:
    run = harness.shell("id -un; ulimit -n; ulimit -Hn", user="nobody", limits={"files": 33})
    assert harness.output(run).split() == [b"nobody", b"33", b"33"]


def test_a_limit_above_the_agents_own_is_a_failure_to_start(harness: Harness) -> None:
    _, hard = resource.prlimit(harness.warden.pid, resource.RLIMIT_NOFILE)
    result = harness.result(harness.start("true", limits={"core": 0, "files": hard + 1}))
    assert (result.exit_code, result.reason, result.started_at) == (126, "spawn failed", None)
    assert result.message == (
        f"the limit files={hard + 1} is more than this agent may give: {hard} (its own hard RLIMIT_NOFILE)"
    )
    assert harness.result(harness.start("true", limits={"core": 0, "files": hard})).exit_code == 0


def test_a_limit_too_small_for_the_program_is_the_commands_own_failure(harness: Harness) -> None:
    for limits in ({"mem": 0, "core": 0}, {"files": 0}):
        result = harness.result(harness.start("true", limits=limits))
        assert result.started_at is not None
        assert result.signal is not None or result.exit_code == 127


def test_what_cannot_be_found_is_said_with_limits_as_without(harness: Harness) -> None:
    result = harness.result(harness.start("no-such-program", limits={"core": 0}))
    assert (result.exit_code, result.message) == (127, "there is no program 'no-such-program'")


# -- in a cgroup, where one is lent to us

EATER = "import time; a = bytearray(60 << 20); print('ate', flush=True); time.sleep(1000)"


@pytest.fixture
def lent(harness: Harness) -> Path:
    """The cgroup in which those of the runs are made."""
    text = harness.output(harness.start("cat", "/proc/self/cgroup", limits={"mem": ROOMY})).decode()
    above = counting_cgroup(text)
    if above is None:
        pytest.skip("no cgroup is lent to us: needs version 2, a cgroup of our own, memory and pids")
    return above


def groups(lent: Path) -> list[str]:
    return [each.name for each in lent.iterdir() if each.name.startswith(CGROUP)]


def test_memory_is_that_of_the_whole_tree(harness: Harness, lent: Path) -> None:
    """Neither of the two is above the limit; both together are, and so both end."""
    eater = f'"{sys.executable}" -c "{EATER}" &'
    result = harness.result(harness.shell(f"{eater} {eater} wait", limits={"mem": 100 * MIB}))
    assert (result.signal, result.reason) == (signal.SIGKILL, None)
    assert result.message == "out of memory: its limit is 100M"
    until(lambda: not groups(lent))


def test_address_space_costs_nothing_in_a_cgroup(harness: Harness, lent: Path) -> None:
    script = "import mmap; mmap.mmap(-1, 1 << 30); print('mapped')"
    assert (
        harness.output(harness.start(sys.executable, "-c", script, limits={"mem": 64 * MIB})) == b"mapped\n"
    )


@needs_root
def test_even_roots_processes_are_counted_in_a_cgroup(harness: Harness, lent: Path) -> None:
    run = harness.shell("for i in 1 2 3 4 5 6 7 8 9; do sleep 50 & done; wait", limits={"procs": 5})
    assert harness.result(run).exit_code == 2
    assert b"fork" in harness.output(run, "err")


@needs_root
def test_another_user_is_in_the_cgroup_as_well(harness: Harness, lent: Path) -> None:
    run = harness.start("cat", "/proc/self/cgroup", user="nobody", limits={"mem": ROOMY})
    assert CGROUP.encode() in harness.output(run)


def test_nothing_outlives_a_cancelled_run_in_its_cgroup(harness: Harness, lent: Path) -> None:
    script = (
        "trap '' TERM; for i in 1 2 3; do setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & done; wait"
    )
    run = harness.shell(script, limits={"mem": ROOMY}, grace=0.1)
    harness.pid(run)
    (inside,) = lent.glob(f"{CGROUP}{run}-*/cgroup.procs")
    until(lambda: len(inside.read_text().split()) == 10)
    harness.warden.kill([run])
    assert harness.result(run).reason == "cancelled"
    until(lambda: not groups(lent))


def test_a_cgroup_lives_with_its_background_and_goes_with_a_later_run(harness: Harness, lent: Path) -> None:
    run = harness.shell("sleep 1000 >/dev/null 2>&1 & echo $!", limits={"mem": ROOMY})
    pid = int(harness.output(run))
    assert [name.split("-")[2] for name in groups(lent)] == [str(run)]
    os.kill(pid, signal.SIGKILL)

    def gone_after_another() -> bool:
        harness.result(harness.start("true", limits={"mem": ROOMY}))
        return not groups(lent)

    until(gone_after_another)
