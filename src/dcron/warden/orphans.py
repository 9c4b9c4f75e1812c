"""Find out which run an orphan belongs to: a process that came to the warden because its parents died.

It may have left its session (setsid, a double fork) and cleared its environment (`env -i`), so nothing in
it proves its run. But it began while its run was active, and it belongs to its run's account unless that is
root. Often only one run remains. If there are several, the environment decides; and an orphan that may
belong to several runs ends with the last of them, if the first of them that was over had been killed. What
was there when a run ended by itself is taken for its background, which lives on.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH123

import os
import select
import signal
from collections.abc import Collection, Container, Iterable
from contextlib import suppress
from typing import Protocol

from dcron.warden.descendants import Process
from dcron.warden.linux import boottime, raw_fork

RUN_ID = "DCRON_RUN_ID"
"""In every command's environment, and in its descendants' unless they clear it."""
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_ANSWER = 0.2
"""Seconds for a look at environments: their pages may be on a file system that hangs."""
_REST = 60.0
"""Seconds without such a look after one that timed out."""

_OVER = -1
"""In place of the id of a run that is over and was not remembered."""

Key = tuple[int, int]


class Suspect(Protocol):
    """A run that an orphan may belong to."""

    run_id: int
    began: float
    uid: int


class Orphans:
    """The orphans seen so far, with the runs each of them may belong to."""

    def __init__(self) -> None:
        self._suspects: dict[Key, frozenset[int]] = {}
        self._uids: dict[Key, frozenset[int]] = {}
        self._unasked: set[Key] = set()
        self._killed: set[int] = set()
        """The runs that were killed and are over, while orphans may belong to them."""
        self._background: set[Key] = set()
        """What was there when a run that it may belong to ended by itself."""
        self._ask_after = 0.0

    def suspects(self, orphan: Process) -> frozenset[int]:
        """Return the ids of the runs this orphan may belong to, finished ones included."""
        return self._suspects.get(orphan.key, frozenset())

    def knows(self, pid: int) -> bool:
        """Return whether a living child of ours with this pid was noticed."""
        return any(known == pid for known, _ in self._suspects)

    def forget(self, pid: int) -> None:
        """Forget an orphan that was reaped."""
        if self._suspects:
            for key in [key for key in self._suspects if key[0] == pid]:
                del self._suspects[key], self._uids[key]
                self._unasked.discard(key)
                self._background.discard(key)
            self._killed.intersection_update(set().union(*self._suspects.values()))

    def note_end(self, run_id: int, *, was_killed: bool) -> None:
        """Note that a run is over."""
        its = [key for key, suspects in self._suspects.items() if run_id in suspects]
        if was_killed and its:
            self._killed.add(run_id)
        elif not was_killed:
            self._background.update(key for key in its if self._killed.isdisjoint(self._suspects[key]))

    def is_left(self, orphan: Process, active: Container[int]) -> bool:
        """Return whether all runs this orphan may belong to are over, and the first was killed."""
        return self._is_left(orphan.key, active)

    def are_left(self, active: Container[int]) -> bool:
        """Return whether there is such an orphan."""
        return bool(self._killed) and any(self._is_left(key, active) for key in self._suspects)

    def _is_left(self, key: Key, active: Container[int]) -> bool:
        suspects = self._suspects.get(key, frozenset())
        if key in self._background or self._killed.isdisjoint(suspects):
            return False
        return not any(each in active for each in suspects)

    def notice(self, orphans: Iterable[Process], runs: Collection[Suspect]) -> None:
        """Note which runs new orphans may belong to, while those runs are still known.

        They are the active runs, and those with other orphans, which may have started more.
        """
        new = [each for each in orphans if each.key not in self._suspects]
        for each in sorted(new, key=lambda orphan: orphan.started):
            uids = _uids(each.pid)
            able = [run for run in runs if run.began < (each.started + 1) * _TICK]
            likely = [run for run in able if run.uid == 0 or run.uid in uids] or able
            background = [self._suspects[key] for key, its in self._uids.items() if 0 in its or its & uids]
            found = frozenset(run.run_id for run in likely).union(*background)
            self._suspects[each.key] = found or frozenset((_OVER,))
            self._uids[each.key] = uids
            if len(found) > 1:
                self._unasked.add(each.key)

    def ask(self) -> None:
        """Read the environments of orphans that may belong to several runs, once each."""
        if not self._unasked or boottime() < self._ask_after:
            return
        answers = _run_ids([pid for pid, _ in self._unasked])
        if answers is None:
            self._ask_after = boottime() + _REST
            return
        for key in self._unasked:
            run_id = answers.get(key[0])
            if run_id in self._suspects[key]:
                self._suspects[key] = frozenset((run_id,))
        self._unasked.clear()


def _uids(pid: int) -> frozenset[int]:
    """Return all four user ids of a process; empty if it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Uid:"):
                return frozenset(int(each) for each in line.split()[1:])
    return frozenset()


def _run_ids(pids: list[int]) -> dict[int, int] | None:
    """Return the run ids in the environments of processes; None if they cannot be read in time.

    A child process reads them, because it can be killed.
    """
    readable, writable = os.pipe()
    try:
        child = raw_fork()
        if not child:
            _write_run_ids(pids, writable)
    finally:
        os.close(writable)
    with open(readable, "rb", buffering=0) as answer:
        poll = select.poll()
        poll.register(readable, select.POLLHUP)
        if not poll.poll(_ANSWER * 1000):
            os.kill(child, signal.SIGKILL)  # it may not die at once; it is reaped with the other children
            return None
        words = answer.read(1 << 16).split()
    with suppress(ChildProcessError):
        os.waitpid(child, 0)
    return {int(pid): int(run_id) for pid, run_id in zip(words[::2], words[1::2], strict=True)}


def _write_run_ids(pids: list[int], to: int) -> None:
    try:
        found = [(pid, _run_id_in_environment(pid)) for pid in pids[:1000]]
        os.write(to, b"".join(b"%d %d " % each for each in found if each[1] >= 0))
    finally:
        os._exit(0)


def _run_id_in_environment(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:  # gone, or another user's
        return -1
    prefix = RUN_ID.encode() + b"="
    values = [each.removeprefix(prefix) for each in variables if each.startswith(prefix)]
    return int(values[0]) if values and values[0].isdigit() and len(values[0]) < 20 else -1
