"""What all parts of one node share."""

from dataclasses import dataclass, field
from threading import Event

from dcron.agent.admission import Admission
from dcron.agent.counters import Counters
from dcron.agent.lease import Lease
from dcron.agent.pings import RunPings
from dcron.agent.rollback_detection import RollbackDetector
from dcron.agent.running import ActiveRuns
from dcron.agent.settings import AgentSettings
from dcron.database import Database
from dcron.warden.client import Warden


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """One node of an agent: its id, its lease, its warden, and what it runs."""

    id: str
    database: Database
    settings: AgentSettings
    warden: Warden
    lease: Lease
    rollback_detector: RollbackDetector
    active_runs: ActiveRuns
    admission: Admission
    counters: Counters = field(default_factory=Counters)
    pings: RunPings = field(default_factory=RunPings)
    wake_dispatcher: Event = field(default_factory=Event)
    wake_heartbeat: Event = field(default_factory=Event)
