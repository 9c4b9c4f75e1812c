"""Clocks, time zone data and releases that differ between nodes."""

from collections.abc import Iterator, Sequence

from dcron.model import Node
from dcron.policy.conditions.nodes import is_clock_off
from dcron.services.doctor.finding import Finding, named


def examine(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Yield findings about the differences between these living nodes."""
    yield from _clocks(nodes)
    yield from _time_zones(nodes)
    yield from _releases(nodes)


def _clocks(nodes: Sequence[Node]) -> Iterator[Finding]:
    wrong = [node for node in nodes if is_clock_off(node)]
    if wrong:
        shown = [f"{node.name} by {node.clock_offset or 0.0:+.1f}s" for node in wrong]
        yield Finding(
            "clock-skew",
            f"clocks differ from the database's: {named(shown)}",
            "tasks still start by the database's clock, but commands there go by the wrong one",
            "set the clocks by NTP: timedatectl set-ntp true",
            [node.id for node in wrong],
        )


def _time_zones(nodes: Sequence[Node]) -> Iterator[Finding]:
    kinds = {node.tzdata_fingerprint or node.tzdata for node in nodes}
    if len(kinds) > 1:
        shown = [f"{node.name} has {node.tzdata}" for node in nodes]
        yield Finding(
            "tzdata-differs",
            f"nodes have different time zone data: {named(shown)}",
            "where the two disagree, the next run of a task depends on the node that plans it",
            "upgrade the agents that are behind: pip install --upgrade tzdata, or the system's tzdata",
            [node.id for node in nodes],
        )


def _releases(nodes: Sequence[Node]) -> Iterator[Finding]:
    if len({node.version for node in nodes}) > 1:
        shown = [f"{node.name} runs {node.version}" for node in nodes]
        yield Finding(
            "version-differs",
            f"nodes run different releases of dcron: {named(shown)}",
            "what only the newer release can do happens on some nodes and not on others",
            "upgrade the agents that are behind",
            [node.id for node in nodes],
        )
