"""Agent settings, validated on construction. Durations are in seconds."""

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dcron.config.channels import Channel
from dcron.config.policy_file import PolicyPath
from dcron.errors import UsageError
from dcron.fields.kinds import web_address_problem
from dcron.monitoring.address import ListenAddress
from dcron.policy.starting.disconnect import LONGEST_KILL_GRACE
from dcron.policy.validation import require_amounts, require_queue, require_tags
from dcron.values.quantities import SLOTS
from dcron.warden.accounts import Account, own_account
from dcron.warden.isolation import why_unavailable

POLL_INTERVAL = 5.0
"""Seconds between two looks at the database when nothing is due and no change is signalled."""
POLL_INTERVAL_WITHOUT_NOTIFY = 1.0
"""The same behind a transaction pooler, where no change can be signalled."""
SHORTEST_LEASE = 4.0
_PARTS_OF_LEASE = 6
NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,60}")


def default_slots() -> int:
    """Return eight slots per core: most cron jobs spend their time waiting, and starts share a commit."""
    return 8 * len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Settings of one agent. Durations are in seconds. A setting out of bounds raises UsageError."""

    name: str
    spool: Path
    slots: int
    lease: float = 60.0
    grace: float = 30.0
    """Time that running commands get to end by themselves when the agent stops."""
    tags: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """Queues it serves; empty means all."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """Capacity by name, for tasks that need some of it; memory in bytes."""
    isolate: bool = False
    """Whether commands run in a PID namespace that ends with the agent."""
    monitor: ListenAddress | None = None
    """Where the agent serves its figures."""
    channels: tuple[Channel, ...] = ()
    """Where it can send notifications."""
    ping: str | None = None
    """The URL that the agent requests while the cluster is healthy."""
    account: Account = field(default_factory=own_account)
    """The account it runs as, and whether it may run commands as others."""
    policy: PolicyPath | None = None
    """Where its policy is. None accepts every task that the account may run; `dcron agent` gives a path."""

    def __post_init__(self) -> None:
        if not NODE_NAME.fullmatch(self.name):
            raise UsageError(
                f"a node cannot be called {self.name!r} (--name, or `name` of [agent] in the config file):"
                " use 1 to 60 of A-Z a-z 0-9 . _ -"
            )
        if self.slots < 1:
            raise UsageError(f"--slots: {self.slots} is not valid; give 1 or more")
        if self.lease < SHORTEST_LEASE:
            raise UsageError(f"--lease: {self.lease:g}s is not valid; give {SHORTEST_LEASE:g}s or more")
        if self.grace < 0:
            raise UsageError(f"--grace: {self.grace:g}s is not valid; give 0s or more")
        if self.isolate and (reason := why_unavailable()):
            raise UsageError(f"--isolate: commands cannot be isolated here: {reason}")
        if problem := web_address_problem(self.ping):
            raise UsageError(f"--ping: {problem}")
        require_tags("--tag", self.tags)
        for queue in self.queues:
            require_queue("--queue", queue)
        if SLOTS in self.capacity:
            raise UsageError("--capacity: slots are given by --slots N")
        require_amounts("--capacity", self.capacity)

    @property
    def beat(self) -> float:
        """Time between two heartbeats."""
        return self.lease / _PARTS_OF_LEASE

    @property
    def margin(self) -> float:
        """How long before the end of the lease, by the database's clock, all commands here must be dead."""
        return self.lease / _PARTS_OF_LEASE

    @property
    def kill_grace(self) -> float:
        """Time a command gets between SIGTERM and SIGKILL."""
        return min(LONGEST_KILL_GRACE, self.grace)

    def new_node_id(self) -> str:
        """Return a new, unique ID: a restarted agent is another node and does not own the old one's runs."""
        return f"{self.name}-{secrets.token_hex(4)}"
