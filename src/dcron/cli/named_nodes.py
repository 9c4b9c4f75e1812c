"""The nodes that `drain` and `undrain` act on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.model import Node

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


def mention_namesakes(found: Sequence[Node], does: str) -> None:
    """Note if several living nodes have the name that was given."""
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        console.note(
            f"{len(found)} living nodes have the name {found[0].name}, and all are affected: {ids};"
            f" an ID {does} only one"
        )


def print_nodes_as_json(crontab: "Crontab", nodes: Sequence[Node]) -> None:
    """Print these nodes as they are now."""
    from dcron.cli import json_output

    now, ids = crontab.now(), {each.id for each in nodes}
    console.emit([json_output.node_shape(each, now) for each in crontab.nodes() if each.id in ids])
