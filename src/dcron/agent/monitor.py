"""The pages of an agent for a monitoring system and a service manager.

`/metrics`, `/healthz` and `/readyz` come from memory; only `/cluster` asks the database. `/healthz` says
nothing about the database: its outage must not make a service manager kill healthy agents.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import choose_encoder

from dcron import __version__
from dcron.agent.counters import Distribution
from dcron.agent.health import MonitoredAgent, why_unhealthy
from dcron.agent.log import log
from dcron.database import Database
from dcron.model import node_name
from dcron.monitoring.address import ListenAddress
from dcron.monitoring.cluster import ClusterPage
from dcron.monitoring.families import counts_by, gauge
from dcron.monitoring.server import MonitorServer, Page
from dcron.schedule.zones import tzdata_version

_SPOOL_PAUSE = 100
"""How many times as long as the reading of the spool's size its figure is used."""


@contextmanager
def serve(
    address: ListenAddress, agent: MonitoredAgent, database: Database
) -> Iterator[MonitorServer | None]:
    """Serve the pages of the agent while the block runs. If the address cannot be used, only log that."""
    with ExitStack() as stack:
        cluster = ClusterPage(database)
        stack.callback(cluster.close)
        pages = {
            "/metrics": NodeMetrics(agent).page,
            "/cluster": cluster.page,
            "/healthz": lambda _: health_page(agent),
            "/readyz": lambda _: readiness_page(agent),
        }
        server = None
        try:
            server = stack.enter_context(MonitorServer(address, pages))
        except OSError as error:
            reason = error.strerror or error
            log.error(
                "monitor: cannot listen on %s: %s; the agent runs without it",
                *(address, reason),
                event="monitor-failed",
            )
        else:
            log.info("monitor: listens on %s", server.address, event="monitor-listens")
        yield server


def health_page(agent: MonitoredAgent) -> Page:
    """Answer 200 while the agent's loops go on."""
    reason = why_unhealthy(agent)
    return Page.of("ok\n") if reason is None else Page.of(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)


def readiness_page(agent: MonitoredAgent) -> Page:
    """Answer 200 while the node takes runs."""
    session = agent.session
    reason = session.why_not_ready() if session else "it is not registered"
    return Page.of("ok\n") if reason is None else Page.of(f"{reason}\n", HTTPStatus.SERVICE_UNAVAILABLE)


class NodeMetrics:
    """The figures of one agent, from memory."""

    def __init__(self, agent: MonitoredAgent) -> None:
        self._agent = agent
        self._process = ProcessCollector(registry=None)
        self._spool, self._spool_read_at = 0, 0.0

    def page(self, accept: str) -> Page:
        """Return the page in the form that the client accepts."""
        encode, content_type = choose_encoder(accept)
        return Page(encode(self), content_type=content_type)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the agent."""
        counters = self._agent.counters
        yield from self._of_node()
        yield counts_by("dcron_runs_started", "Runs started.", "trigger", counters.started)
        yield counts_by("dcron_runs_finished", "Runs whose end was recorded.", "state", counters.finished)
        yield _histogram(
            "dcron_run_start_lateness_seconds",
            "From the time at which a run was due until its start was recorded.",
            counters.lateness,
        )
        yield _histogram(
            "dcron_run_duration_seconds", "From the start of a command to its end.", counters.duration
        )
        took = SummaryMetricFamily(
            "dcron_database_seconds", "Duration of the agent's transactions.", labels=["step"]
        )
        for name, timer in counters.transactions.items():
            took.add_metric([name], timer.count, timer.seconds)
        yield took
        errors = {loop.name: loop.database_errors for loop in counters.loops}
        yield counts_by("dcron_database_errors", "Failed steps of a loop.", "loop", errors)
        overdue = GaugeMetricFamily(
            "dcron_node_loop_overdue_seconds",
            "How long a loop's step has taken, or how late its next one is.",
            labels=["loop"],
        )
        for loop in counters.loops:
            overdue.add_metric([loop.name], loop.overdue)
        yield overdue
        yield from self._process.collect()

    def _of_node(self) -> Iterator[Metric]:
        settings, counters, session = self._agent.settings, self._agent.counters, self._agent.session
        node = {"version": __version__, "tzdata": tzdata_version()}
        if session:
            node |= {"node": session.node.id, "name": node_name(session.node.id)}
        yield InfoMetricFamily("dcron_node", "The node.", value=node)
        yield gauge("dcron_node_slots", "Most runs at once.", settings.slots)
        yield gauge(
            "dcron_node_up",
            "Whether the loops of the agent go on, as /healthz says.",
            why_unhealthy(self._agent) is None,
        )
        ready = session is not None and session.why_not_ready() is None
        yield gauge("dcron_node_ready", "Whether the node takes runs, as /readyz says.", ready)
        yield gauge("dcron_node_lease_seconds", "Length of the lease.", settings.lease)
        if session:
            active = session.node.active_runs
            yield gauge("dcron_node_slots_used", "Runs that take slots.", active.count)
            yield gauge("dcron_node_draining", "Whether the node drains.", session.node.lease.draining)
            yield gauge(
                "dcron_node_lease_left_seconds",
                "Until the lease ends; below 0 once it ended.",
                max(session.node.lease.left, -settings.lease),
            )
            yield gauge(
                "dcron_spool_undelivered",
                "Ended runs whose end is not in the database yet.",
                active.unrecorded,
            )
        if counters.clock_offset is not None:
            yield gauge(
                "dcron_node_clock_offset_seconds",
                "How far this machine's clock is ahead of the database's.",
                counters.clock_offset,
            )
        yield gauge("dcron_spool_bytes", "Size of the files in the spool.", self._spool_bytes(settings.spool))

    def _spool_bytes(self, directory: Path) -> int:
        """Return the size of the spool. A huge one is read rarely: it takes a hundredth of a core at most."""
        now = time.monotonic()
        if now >= self._spool_read_at:
            self._spool = _bytes_below(directory)
            took = time.monotonic() - now
            self._spool_read_at = now + _SPOOL_PAUSE * took
        return self._spool


def _histogram(name: str, help_text: str, values: Distribution) -> Metric:
    buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in values.up_to()]
    return HistogramMetricFamily(name, help_text, buckets=buckets, sum_value=values.total)


def _bytes_below(directory: Path) -> int:
    """Return the size of the files in the directories of this directory, whatever disappears meanwhile."""
    found = 0
    for node in _entries(directory):
        with suppress(OSError):
            if node.is_dir(follow_symlinks=False):
                found += sum(_size(entry) for entry in _entries(Path(node.path)))
    return found


def _entries(directory: Path) -> Iterable["os.DirEntry[str]"]:
    with suppress(OSError), os.scandir(directory) as entries:
        return list(entries)
    return ()


def _size(entry: "os.DirEntry[str]") -> int:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_size
    return 0
