"""The calls of the kernel do what their names say. Each changes its process, and so gets one of its own."""

import math
import os
import select
import subprocess
import sys

import pytest

from dcron.warden.linux import IntervalTimer, OwnPeak, boottime


def run(script: str) -> str:
    """Run Python in a process of its own; return what it prints."""
    prelude = (
        "import ctypes, os, subprocess, sys\nfrom dcron.warden.linux import *\nlibc = ctypes.CDLL(None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_memory_is_hidden_and_commands_are_not() -> None:
    """PR_GET_DUMPABLE is 3. A command gets a memory of its own, with which it may do as it likes."""
    child = "import ctypes; print(ctypes.CDLL(None).prctl(3))"
    script = f"""
print(libc.prctl(3), flush=True)
hide_memory()
print(libc.prctl(3), flush=True)
subprocess.run([sys.executable, "-c", {child!r}])
"""
    assert run(script).split() == ["1", "0", "1"]


def test_a_subreaper_becomes_the_parent_of_orphans() -> None:
    script = """
become_subreaper()
orphan = int(subprocess.run(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], capture_output=True).stdout)
with open(f"/proc/{orphan}/stat") as file:
    print(int(file.read().rsplit(") ", 1)[1].split()[1]) == os.getpid())
os.kill(orphan, 9)
print(os.waitpid(orphan, 0)[0] == orphan)
"""
    assert run(script).split() == ["True", "True"]


def test_a_process_has_the_name_it_was_given() -> None:
    assert run("name_process('dcron-warden'); print(open('/proc/self/comm').read())") == "dcron-warden"


def test_an_error_of_the_kernel_is_an_exception() -> None:
    alarm = IntervalTimer()
    os.close(alarm.fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        alarm.set(1.0)


def test_an_alarm_goes_off_at_its_time_and_not_before() -> None:
    alarm = IntervalTimer()
    when = boottime() + 0.05
    alarm.set(when)
    assert select.select([alarm.fd], [], [], 0)[0] == []
    assert select.select([alarm.fd], [], [], 2)[0] == [alarm.fd]
    assert when <= boottime() < when + 0.5


def test_an_alarm_can_be_moved_and_switched_off() -> None:
    alarm = IntervalTimer()
    alarm.set(boottime() + 3600)
    alarm.set(0.0)
    assert select.select([alarm.fd], [], [], 1)[0] == [alarm.fd]
    alarm.set(boottime() + 0.02)
    alarm.set(math.inf)
    assert select.select([alarm.fd], [], [], 0.1)[0] == []


def test_a_size_below_our_own_is_hidden() -> None:
    peak = OwnPeak()
    assert peak.unless_hidden(1) is None
    assert peak.unless_hidden(1 << 45) == 1 << 45
    assert peak.unless_hidden(1 << 20) is None
