"""What /proc says of processes, and killing exactly the right ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcron.warden.descendants import Processes, kill_descendants, process, send


@contextmanager
def sleeping(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process that waits."""
    with subprocess.Popen(command or ("sleep", "300")) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_process_is_read_from_proc() -> None:
    me = process(os.getpid())
    assert me is not None
    assert me[:4] == (os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0))
    assert me.alive
    assert me.started > 0


def test_killing_stops_as_soon_as_it_may_not_go_on() -> None:
    """The guard looks again before each signal: meanwhile the warden may have set the alarm anew."""
    script = "(trap '' TERM; echo up; exec sleep 300) & wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout
            parent.stdout.readline()
            (child,) = [each for each in Processes().below(parent.pid) if each.alive]
            assert kill_descendants(parent.pid, 0, go_on=lambda: False) == [child.pid]
            answers = iter([True, True])  # until SIGTERM is sent
            assert kill_descendants(parent.pid, 0, go_on=lambda: next(answers, False)) == [child.pid]
            assert process(child.pid) == child
            assert kill_descendants(parent.pid, 0) == []
        finally:
            parent.kill()


def test_a_process_that_is_gone_is_none() -> None:
    assert process(2**22 + 1) is None


def test_a_name_with_brackets_and_spaces_hides_nothing(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 1 (b"
    program.symlink_to("/bin/sleep")
    with sleeping(str(program), "300") as child:
        found = process(child.pid)
        assert found is not None
        assert found.ppid == os.getpid()


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = process(child.pid)
    assert found is not None
    assert not found.alive
    child.wait()


def test_a_process_whose_main_thread_ended_is_alive() -> None:
    """/proc calls it a zombie; it runs all the same."""
    script = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
os.write(1, b"x")
ctypes.CDLL(None).syscall(60, 0)
"""
    if os.uname().machine != "x86_64":
        pytest.skip("knows the number of the system call on x86_64 only")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"x"
        state = b""
        while state != b"Z":
            state = Path(f"/proc/{child.pid}/stat").read_bytes().rsplit(b") ", 1)[1][:1]
        found = process(child.pid)
        assert found is not None
        assert found.alive
        child.kill()


def test_all_generations_are_found_below_a_process() -> None:
    with sleeping("sh", "-c", "sh -c 'sleep 300; true' & setsid sleep 300 & echo; wait") as child:
        while len(found := Processes().below(child.pid)) < 3:
            pass
        assert {each.pid for each in Processes().below(os.getpid())} >= {
            child.pid,
            *(each.pid for each in found),
        }
        assert child.pid not in {each.pid for each in found}
        assert kill_descendants(child.pid, grace=0) == []
        assert all(not each.alive for each in Processes().below(child.pid))


def test_a_signal_goes_only_to_the_process_that_was_seen() -> None:
    with sleeping() as child:
        seen = process(child.pid)
        assert seen is not None
        assert send(seen._replace(started=seen.started + 1), signal.SIGKILL)
        assert child.poll() is None
        assert send(seen, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM


def test_a_signal_to_the_dead_is_no_error() -> None:
    with sleeping() as child:
        seen = process(child.pid)
        child.kill()
        child.wait()
        assert seen is not None
        assert send(seen, signal.SIGTERM)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_signal_that_is_not_permitted_is_said_to_be() -> None:
    with sleeping() as child:
        seen = process(child.pid)
        assert seen is not None
        os.setresuid(65534, 65534, 0)
        try:
            assert not send(seen, signal.SIGTERM)
        finally:
            os.setresuid(0, 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_cannot_be_killed_is_named() -> None:
    with sleeping("sh", "-c", "sleep 300 & echo $!; wait") as child:
        while not Processes().below(child.pid):
            pass
        (grandchild,) = Processes().below(child.pid)
        os.setresuid(65534, 65534, 0)
        try:
            assert kill_descendants(child.pid, grace=0, patience=0.1) == [grandchild.pid]
        finally:
            os.setresuid(0, 0, 0)
        assert kill_descendants(child.pid, grace=0) == []
