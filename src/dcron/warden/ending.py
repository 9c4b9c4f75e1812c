"""Whose a process is, and how many of them are ended: SIGTERM, grace, SIGKILL until none is left."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH123

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from dcron.warden.cgroups import Cgroup
from dcron.warden.descendants import Process, Processes, send, terminate

RUN_ID = "DCRON_RUN_ID"
"""In every command's environment, and in that of all it starts: how an orphan is known again."""
ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL when the agent is gone: nobody is there to wait for a longer one."""


class Owner(Protocol):
    """A run, as far as its processes are concerned."""

    run_id: int
    pid: int
    known: set[tuple[int, int]]

    @property
    def exited(self) -> bool:
        """Whether the leader was reaped."""


def members(
    processes: Processes, warden: int, runs: Iterable[Owner]
) -> tuple[dict[int, list[Process]], list[Process]]:
    """Return the living processes of each run, by its id, and those below the warden that are no run's.

    A process is a run's by descent, by session, by having been seen as its member, or, when its parents died
    and it came to the warden, by its environment. `known` of each run is brought up to date.
    """
    by_session = {run.pid: run for run in runs}
    by_pid = {pid: run for pid, run in by_session.items() if not run.exited}
    by_key = {key: run for run in by_session.values() for key in run.known}
    by_id = {run.run_id: run for run in by_session.values()}
    for run in by_session.values():
        run.known = set()
    of_runs: defaultdict[int, list[Process]] = defaultdict(list)
    others: list[Process] = []
    stack: list[tuple[Process, Owner | None]] = [(each, None) for each in processes.children(warden)]
    while stack:
        each, owner = stack.pop()
        owner = owner or by_pid.get(each.pid) or by_session.get(each.session) or by_key.get(each.key)
        if owner is None and each.alive and each.ppid == warden:
            owner = by_id.get(_run_id_in_environment(each.pid))
        if owner:
            owner.known.add(each.key)
        if each.alive:
            (of_runs[owner.run_id] if owner else others).append(each)
        stack += [(child, owner) for child in processes.children(each.pid)]
    return of_runs, others


def _run_id_in_environment(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:  # gone, or another user's
        return -1
    prefix = RUN_ID.encode() + b"="
    values = [each.removeprefix(prefix) for each in variables if each.startswith(prefix)]
    return int(values[0]) if values and values[0].isdigit() else -1


class Ending:
    """The end of some processes, which are looked up anew before every step: they go on forking."""

    def __init__(self, kill_at: float, cgroup: Cgroup | None = None) -> None:
        self._cgroup = cgroup
        self.kill_at = kill_at
        """When SIGKILL follows (`linux.boottime` seconds)."""
        self.spared: set[tuple[int, int]] = set()
        """Processes of another user: not ours to kill, and not to be waited for."""
        self._asked = False
        self._killed: set[tuple[int, int]] = set()

    def hasten(self, kill_at: float) -> None:
        """Kill at that moment if not before."""
        self.kill_at = min(self.kill_at, kill_at)

    def left(self, processes: list[Process]) -> list[Process]:
        """Return those that must still go."""
        return [each for each in processes if each.key not in self.spared]

    def step(self, alive: list[Process], now: float, group: int | None) -> bool:
        """Do what is due; return whether anybody was killed who was not before.

        `group` is the process group of a living leader. It gets SIGTERM at one stroke and only once, because
        many programs take a second one as an order to drop everything.
        """
        if not self._asked:
            self._asked = True
            if group is not None:
                _signal_group(group, signal.SIGTERM)
                _signal_group(group, signal.SIGCONT)
            terminate(each for each in alive if each.group != group)
            return False
        if now < self.kill_at:
            return False
        if self._cgroup:
            self._cgroup.kill()
        new = [each for each in alive if each.key not in self._killed]
        for each in new:
            self._killed.add(each.key)
            if not send(each, signal.SIGKILL):
                self.spared.add(each.key)
        return bool(new)


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
