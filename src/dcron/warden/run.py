"""One command, from its start to its result."""

import os
from collections.abc import Collection
from resource import struct_rusage
from time import time

from dcron.warden.cgroups import Cgroup
from dcron.warden.child import NOT_STARTED
from dcron.warden.escalation import Escalation
from dcron.warden.journal import JournalWriter, Reason, Result
from dcron.warden.linux import OwnPeak, boottime
from dcron.warden.protocol import StartRequest
from dcron.warden.spawning import Spawned
from dcron.warden.timers import Timer

_own_peak = OwnPeak()

REFUSALS: dict[Reason, str] = {
    "lease": "not started: the lease was over",
    "agent gone": "not started: the agent was gone",
    "guard gone": "not started: the warden's guard was gone",
    "stopped": "not started: the agent was stopping",
    "cancelled": "cancelled before it was started",
    "timeout": "its time was over before it was started",
}
"""The message for a run that never started, by the reason for its end."""


class CommandRun:
    """A command that was forked and has no result yet."""

    def __init__(
        self, start: StartRequest, spawned: Spawned, journal: JournalWriter, cgroup: Cgroup | None
    ) -> None:
        self.start = start._replace(stdin=None, env={})
        self.run_id = start.run_id
        self.grace = start.grace
        self.pid = spawned.pid
        self.status = spawned.status
        """Read end of its status pipe; -1 once it is closed."""
        self.has_started: bool | None = True if spawned.status < 0 else None
        """Whether its program began; None while its child has not become the program yet."""
        self.failure: tuple[int, str] | None = None
        """Exit code and message if the program could not be started."""
        self.pipes = {spawned.out, spawned.err}
        """Read ends whose end has not been reached."""
        self.journal = journal
        self.cgroup = cgroup
        self.started_at = time()
        self.known: set[tuple[int, int]] = set()
        """Processes that were seen as its members. They stay members, whatever becomes of their parents."""
        self.reason: Reason | None = None
        self.ending: Escalation | None = None
        """Set when it is being killed."""
        self.gone = False
        """Set once it was killed and none of its processes is left."""
        self.timeout: Timer | None = None
        self.begin: Timer | None = None
        """Ends a start that takes too long."""
        self.patience: Timer | None = None
        """Ends the wait for pipes that background processes hold open after the leader's exit."""
        self.began = boottime()
        self.uid = start.identity.uid if start.identity else os.geteuid()
        self._ended = 0.0
        self._status: int | None = None
        self._usage: struct_rusage | None = None

    @property
    def exited(self) -> bool:
        """Whether the leader was reaped. From then on its pid may belong to another process."""
        return self._status is not None

    @property
    def signal(self) -> int | None:
        """The signal that ended the leader; None if none did."""
        ended = self._status is not None and os.WIFSIGNALED(self._status)
        return os.WTERMSIG(self._status) if ended and self._status is not None else None

    @property
    def is_unkillable(self) -> bool:
        """Whether the leader belongs to another user and cannot be killed."""
        spared = self.ending.spared if self.ending else ()
        return not self.exited and any(pid == self.pid for pid, _ in spared)

    def inside(self) -> Collection[int]:
        """Return the processes in its cgroup."""
        return self.cgroup.processes() if self.cgroup else ()

    def exit(self, status: int, usage: struct_rusage) -> None:
        """Record how the leader ended."""
        self._status, self._usage, self._ended = status, usage, boottime()

    def result(self, node_id: str) -> Result:
        """Return the result. The duration is right even if the wall clock was set in the meantime."""
        if not self.has_started:
            return self._never_started(node_id)
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        usage = self._usage
        return Result(
            run_id=self.run_id,
            node_id=node_id,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            reason=self.reason,
            message=self._message(),
            started_at=self.started_at,
            finished_at=self.started_at + (self._ended or boottime()) - self.began,
            cpu=usage.ru_utime + usage.ru_stime if usage else 0.0,
            max_rss=_own_peak.unless_hidden(usage.ru_maxrss * 1024) if usage else None,
            total_bytes=self.journal.total_bytes,
            last_segment=self.journal.segment,
        )

    def _never_started(self, node_id: str) -> Result:
        if self.failure is not None:
            code, message = self.failure
            return not_started(self.start, node_id, "spawn failed", message, code)
        if self.reason is not None:
            return not_started(self.start, node_id, self.reason, REFUSALS[self.reason])
        message = "its process was killed before the program began"
        return not_started(self.start, node_id, "spawn failed", message, NOT_STARTED)

    def _message(self) -> str | None:
        remarks = []
        memory = self.cgroup and self.cgroup.remark()
        if memory:
            remarks.append(memory)
        if self.ending and self.ending.spared:
            pids = ", ".join(str(pid) for pid, _ in sorted(self.ending.spared))
            remarks.append(f"not permitted to kill {pids}")
        if self.journal.error:
            remarks.append(f"output was lost: {self.journal.error}")
        return "; ".join(remarks) or None


def not_started(
    start: StartRequest, node_id: str, reason: Reason, message: str, code: int | None = None
) -> Result:
    """Return the result of a command that never ran."""
    return Result(
        run_id=start.run_id,
        node_id=node_id,
        exit_code=code,
        signal=None,
        reason=reason,
        message=message,
        started_at=None,
        finished_at=time(),
        cpu=0.0,
        max_rss=None,
        total_bytes=0,
        last_segment=0,
    )
