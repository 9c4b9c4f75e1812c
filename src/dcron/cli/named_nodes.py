"""The nodes that `drain` and `undrain` act on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.model import Node

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="A node's whole name or ID, as `dcron nodes` shows it.")
]


def mention_namesakes(found: Sequence[Node], does: str) -> None:
    """Say so where a name has more than one living node."""
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        console.note(
            f"{found[0].name} is the name of {len(found)} living agents, all of them meant: {ids};"
            f" an ID {does} one"
        )


def print_nodes_as_json(crontab: "Crontab", wanted: Sequence[Node]) -> None:
    """Print these nodes as they are now."""
    from dcron.cli import json_output

    now, ids = crontab.now(), {each.id for each in wanted}
    console.emit([json_output.node_shape(each, now) for each in crontab.nodes() if each.id in ids])
