"""Kept commands under a real warden: they go on when the deadline passes, and end with everything else."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcron.warden.linux import boottime
from tests.faults.test_warden import parent_of
from tests.faults.test_warden_kill import SIZE_OF_TREE, Marked, is_running
from tests.support.harness import Harness
from tests.support.patience import until

ENDLESS = "while :; do sleep 0.1; done"


@pytest.fixture
def kept() -> Iterator[Marked]:
    """Return the marker of what goes on."""
    marked = Marked()
    yield marked
    marked.end()


@pytest.fixture
def stopped() -> Iterator[Marked]:
    """Return the marker of what ends."""
    marked = Marked()
    yield marked
    marked.end()


def begin(harness: Harness, kept: Marked, stopped: Marked) -> tuple[int, int]:
    """Start a tree that goes on and one that ends; return their run ids."""
    runs = harness.start(*kept.tree(), keeps=True), harness.start(*stopped.tree())
    until(lambda: len(kept.alive()) == len(stopped.alive()) == SIZE_OF_TREE)
    return runs


def test_the_deadline_ends_the_one_and_leaves_the_other_with_all_its_processes(
    harness: Harness, kept: Marked, stopped: Marked
) -> None:
    goes_on, ends = begin(harness, kept, stopped)
    harness.warden.set_deadline(boottime() + 0.2, grace=2.0)
    assert harness.result(ends).reason == "lease"
    assert stopped.alive() == []
    assert harness.result(harness.start("true", keeps=True)).reason == "lease", "nothing is started"
    time.sleep(1.5)  # the guard's alarm is over
    assert len(kept.alive()) == SIZE_OF_TREE
    assert goes_on not in harness.results

    harness.warden.set_deadline(boottime() + 60)
    assert harness.result(harness.start("true")).exit_code == 0
    harness.warden.kill([goes_on])
    assert harness.result(goes_on).reason == "cancelled"
    assert kept.alive() == []


def test_each_deadline_that_passes_leaves_it(harness: Harness, kept: Marked) -> None:
    run = harness.start(*kept.sleeper(), keeps=True)
    until(kept.alive)
    for _ in range(3):
        harness.warden.set_deadline(boottime() + 0.1, grace=2.0)
        ends = harness.start("sleep", "300")
        assert harness.result(ends).reason == "lease"
    harness.warden.set_deadline(boottime() + 60)
    assert (len(kept.alive()) > 0, run in harness.results) == (True, False)


def test_its_end_and_its_output_are_reported_after_the_deadline(harness: Harness) -> None:
    run = harness.shell("sleep 1; echo late; exit 3", keeps=True)
    harness.pid(run)
    harness.warden.set_deadline(boottime(), grace=2.0)
    assert harness.output(run) == b"late\n"
    assert (harness.results[run].exit_code, harness.results[run].reason) == (3, None)


def test_its_timeout_needs_no_lease(harness: Harness, kept: Marked) -> None:
    run = harness.start(*kept.tree(), keeps=True, timeout=3.0, grace=0.2)
    harness.pid(run)
    harness.warden.set_deadline(boottime() + 0.1, grace=2.0)
    assert harness.result(run).reason == "timeout"
    assert kept.alive() == []


def test_background_processes_of_stopped_runs_end_and_those_of_a_kept_run_stay(
    harness: Harness, kept: Marked, stopped: Marked
) -> None:
    def daemon(mark: Marked) -> str:
        return f"(trap '' TERM; setsid env -i sh -c '{ENDLESS}' {mark.word} >/dev/null 2>&1 &)"

    ends = harness.shell(f"{daemon(stopped)}; sleep 300")
    until(stopped.alive)
    goes_on = harness.shell(f"{daemon(kept)}; sleep 300", keeps=True)
    until(kept.alive)
    harness.warden.set_deadline(boottime() + 0.1, grace=2.0)
    assert harness.result(ends).reason == "lease"
    assert (bool(kept.alive()), goes_on in harness.results) == (True, False)
    harness.warden.set_deadline(boottime() + 60)
    harness.warden.kill([goes_on])
    harness.result(goes_on)
    harness.warden.set_deadline(boottime(), grace=2.0)
    until(lambda: not kept.alive() and not stopped.alive())  # what could belong to both ends with the last


def test_what_is_kept_ends_with_the_agent_and_the_warden(
    tmp_path: Path, kept: Marked, stopped: Marked
) -> None:
    for end in ("stop", "close"):
        harness = Harness(tmp_path / end)
        begin(harness, kept, stopped)
        harness.warden.set_deadline(boottime() + 0.1, grace=2.0)
        until(lambda: not stopped.alive())
        if end == "stop":
            assert harness.warden.stop(0.2)
        harness.warden.close()  # a living warden takes this for the agent's death
        until(lambda: not kept.alive())


def test_a_warden_frozen_at_the_deadline_loses_all(harness: Harness, kept: Marked, stopped: Marked) -> None:
    """The guard cannot tell them apart."""
    begin(harness, kept, stopped)
    harness.warden.set_deadline(boottime() + 1.0, grace=2.0)
    time.sleep(0.3)
    os.kill(harness.warden.pid, signal.SIGSTOP)
    until(lambda: not kept.alive() and not stopped.alive())
    os.kill(harness.warden.pid, signal.SIGCONT)


def test_a_frozen_warden_does_not_save_a_kept_run_from_its_timeout(harness: Harness, kept: Marked) -> None:
    """Its row counts as lost some time after its timeout, so it must be over by then."""
    run = harness.start(*kept.tree(), keeps=True, timeout=4.0, grace=0.2)
    harness.pid(run)
    harness.warden.set_deadline(boottime() + 0.1, grace=2.0)
    time.sleep(1.0)
    os.kill(harness.warden.pid, signal.SIGSTOP)
    guard = parent_of(harness.warden.pid)
    assert (bool(kept.alive()), is_running(guard)) == (True, True)
    until(lambda: not kept.alive())
    os.kill(harness.warden.pid, signal.SIGCONT)
    assert harness.result(run).signal == signal.SIGKILL


def test_a_start_is_refused_once_its_time_is_over(harness: Harness) -> None:
    for keeps in (True, False):
        too_late = harness.start(sys.executable, "-c", "", keeps=keeps, start_by=boottime() - 0.1)
        result = harness.result(too_late)
        assert (result.reason, result.started_at) == ("lease", None)
        in_time = harness.start("true", keeps=keeps, start_by=boottime() + 60)
        assert harness.result(in_time).exit_code == 0
