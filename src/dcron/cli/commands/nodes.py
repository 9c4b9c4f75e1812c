"""`nodes`: list the nodes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo

from dcron import policy
from dcron.cli.asking.options import Db, Json
from dcron.cli.asking.warnings import print_frozen
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.model import Node, NodeState
from dcron.presentation import humanize
from dcron.schedule.zones import zone
from dcron.values.quantities import format_amount

NODES = [
    TableColumn("NODE", least=12),
    TableColumn("HOST", least=6),
    TableColumn("PID", right=True, spare=True),
    TableColumn("STATE"),
    TableColumn("ACCOUNT", least=4, spare=True),
    TableColumn("RUNNING", right=True),
    TableColumn("STARTED", right=True),
    TableColumn("LEASE", right=True),
    TableColumn("CLOCK", right=True),
    TableColumn("VERSION"),
    TableColumn("TZDATA"),
]
ROUTES: dict[str, Callable[[Node], str]] = {
    "TAGS": lambda node: " ".join(node.tags),
    "QUEUES": lambda node: " ".join(node.queues) or "all",
    "CAPACITY": lambda node: " ".join(format_amount(*each) for each in node.capacity.items()),
}
"""Columns that are shown if a node has a value in one of them."""


def command(as_json: Json = False, db: Db = None) -> None:
    """List the running agents, and those that ended within the last day.

    Tags, queues and capacity are shown if a node has any.
    """
    with opened_crontab(db) as crontab:
        found = crontab.nodes()
        now = crontab.now()
        if as_json:
            console.emit_list(json_output.node_shape(node, now) for node in found)
        elif not _print_nodes(found, now):
            console.note("no agents yet; start `dcron agent` on each server that should run tasks")
        _warn_of_zones(found, now)
        if not as_json:
            print_frozen(crontab)


def _print_nodes(found: Sequence[Node], now: datetime) -> int:
    has_routes = any(node.tags or node.queues or node.capacity for node in found)
    routes = ROUTES if has_routes else {}
    here, unheard = zone(own_zone()), any(node.unheard for node in found)
    titles = [*routes, *(["NOT HEARD OF"] if unheard else [])]
    columns = [*NODES, *(TableColumn(title, least=6) for title in titles)]
    rows = (
        [
            *_node_row(node, now),
            *(text_of(node) for text_of in routes.values()),
            *([_not_heard_of(node, here, now)] if unheard else []),
        ]
        for node in found
    )
    return print_table(columns, rows)


def _not_heard_of(node: Node, here: tzinfo, now: datetime) -> str:
    if node.unheard_since is None:
        return ""
    since = humanize.clock(node.unheard_since, here, now)
    return AlarmCell(f"{humanize.plural(node.unheard, 'run')} since {since}")


def _node_row(node: Node, now: datetime) -> list[str]:
    state = node.state(now)
    ended = state in (NodeState.STOPPED, NodeState.DEAD)
    lease = "" if ended else humanize.left(node.alive_until, now)
    return [
        node.id,
        node.host,
        str(node.pid),
        AlarmCell(state.value) if state in (NodeState.LATE, NodeState.DEAD) else state.value,
        humanize.accounts(node),
        f"{node.used_slots}/{node.slots}",
        humanize.ago(node.started_at, now),
        lease,
        _clock_offset(node),
        node.version,
        node.tzdata,
    ]


def _warn_of_zones(found: Iterable[Node], now: datetime) -> None:
    """Warn if living nodes have different time zone data."""
    living = [node for node in found if node.state(now) in (NodeState.ALIVE, NodeState.DRAINING)]
    by_zones: dict[tuple[str, str | None], list[str]] = {}
    for node in living:
        by_zones.setdefault((node.tzdata, node.tzdata_fingerprint), []).append(node.name)
    if len(by_zones) > 1:
        versions = "; ".join(
            f"{version}{f' ({digits})' if digits else ''} on {', '.join(sorted(set(names))[:5])}"
            + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            for (version, digits), names in sorted(by_zones.items(), key=str)
        )
        console.complain(
            f"warning: the nodes have different time zone data: tzdata {versions}. If a zone's rules differ"
            " between these, a task's next time depends on the node that plans it: install the newest tzdata"
            " on all nodes"
        )


def _clock_offset(node: Node) -> str:
    if node.clock_offset is None:
        return ""
    offset = f"{node.clock_offset:+.1f}s"
    return AlarmCell(offset) if policy.conditions.nodes.is_clock_off(node) else offset
