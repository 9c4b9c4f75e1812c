"""Which run a process belongs to, and how processes are ended: SIGTERM, grace, SIGKILL until none is left."""

import os
import signal
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Protocol

from dcron.warden.cgroups import Cgroup
from dcron.warden.descendants import Process, Processes, send, terminate
from dcron.warden.orphans import Orphans

ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL when the agent is gone."""


class Owner(Protocol):
    """What is needed of a run to find its processes."""

    run_id: int
    pid: int
    known: set[tuple[int, int]]

    began: float
    uid: int
    ending: "Escalation | None"

    @property
    def exited(self) -> bool:
        """Whether the leader was reaped."""

    def inside(self) -> Collection[int]:
        """Return the processes in the run's cgroup."""


NO_RUN = -1
"""In place of the id of a run: of orphans whose possible runs are all over, of which one was killed."""


def members(
    processes: Processes,
    warden: int,
    runs: Collection[Owner],
    orphans: Orphans,
    spared: Collection[int] = frozenset(),
) -> tuple[dict[int, list[Process]], list[Process]]:
    """Return the living processes of each run, by run id, and those below the warden that belong to no run.

    A process belongs to a run by its cgroup, by descent, by session, or because it was once seen as its
    member. A process whose parents died, and which came to the warden, belongs to the only run it can come
    from (see `orphans`). `known` of each run is brought up to date. The orphans that `Orphans.is_left` names,
    and their children, are listed under `NO_RUN`. An orphan that may belong to one of the `spared` runs is
    left out, with all below it that belongs to no other run.
    """
    by_session = {run.pid: run for run in runs}
    by_pid = {pid: run for run in runs for pid in run.inside()}
    by_pid |= {pid: run for pid, run in by_session.items() if not run.exited}
    by_key = {key: run for run in runs for key in run.known}
    by_id = {run.run_id: run for run in runs}

    def proven(each: Process) -> Owner | None:
        return by_pid.get(each.pid) or by_session.get(each.session) or by_key.get(each.key)

    ours = processes.children(warden)
    orphans.notice([each for each in ours if each.alive and not proven(each)], runs)
    orphans.ask()
    for run in runs:
        run.known = set()
    of_runs: defaultdict[int, list[Process]] = defaultdict(list)
    others: list[Process] = []
    # Where a process goes that belongs to no run; None if it is spared.
    stack: list[tuple[Process, Owner | None, list[Process] | None]] = [(each, None, others) for each in ours]
    while stack:
        each, owner, rest = stack.pop()
        owner = owner or proven(each)
        if owner is None and each.alive and each.ppid == warden:
            suspects = orphans.suspects(each)
            owner = _only_owner(suspects, by_id)
            if not suspects.isdisjoint(spared):
                rest = None
            elif owner is None and orphans.is_left(each, by_id):
                rest = of_runs[NO_RUN]
        if owner:
            owner.known.add(each.key)
        found = of_runs[owner.run_id] if owner else rest
        if each.alive and found is not None:
            found.append(each)
        stack += [(child, owner, rest) for child in processes.children(each.pid)]
    return of_runs, others


def _only_owner(suspects: Collection[int], by_id: Mapping[int, Owner]) -> Owner | None:
    """Return the run with which an orphan ends: the only possible one, or any if all of them are ending."""
    owners = [by_id[each] for each in suspects if each in by_id]
    if not owners or len(owners) < len(suspects):  # a finished run may have left it in the background
        return None
    return owners[0] if len(owners) == 1 or all(each.ending for each in owners) else None


class Escalation:
    """Ends some processes: SIGTERM, then SIGKILL. They go on forking, so look them up before every step."""

    def __init__(self, kill_at: float, cgroup: Cgroup | None = None) -> None:
        self._cgroup = cgroup
        self.kill_at = kill_at
        """When SIGKILL follows (`linux.boottime` seconds)."""
        self.spared: set[tuple[int, int]] = set()
        """Processes of another user, which we may not kill and do not wait for."""
        self._sigterm_sent = False
        self._killed: set[tuple[int, int]] = set()

    def hasten(self, kill_at: float) -> None:
        """Kill at this time, unless an earlier one is set."""
        self.kill_at = min(self.kill_at, kill_at)

    def left(self, processes: list[Process]) -> list[Process]:
        """Return those that still have to end."""
        return [each for each in processes if each.key not in self.spared]

    def finish(self) -> bool:
        """Kill what is still in the cgroup, because it forks faster than we look.

        Return whether nothing is left in it except spared processes.
        """
        if self._cgroup is None or not self._cgroup.is_populated():
            return True
        self._cgroup.kill()
        return bool(self.spared)

    def step(self, alive: list[Process], now: float, group: int | None) -> bool:
        """Send the signals that are due; return whether a process got its first SIGKILL.

        `group` is the process group of a living leader. It gets SIGTERM as a whole and only once, because
        many programs take a second SIGTERM as an order to drop everything.
        """
        if not self._sigterm_sent:
            self._sigterm_sent = True
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
