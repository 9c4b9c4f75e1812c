"""The nodes that `drain` and `undrain` act on."""

from collections.abc import Sequence

from dcron import services
from dcron.cli.asking.name_arguments import agreed
from dcron.cli.output import console, json_output
from dcron.model import Node


def agreed_node(fleet: "services.fleet.Fleet", verb: str, typed: str) -> str:
    """Return the whole name or ID of the nodes to change, after the user has agreed. Raises NotFound."""

    def find(name: str) -> str:
        fleet.find(name)
        return name

    name = agreed(find, verb, typed, asks=console.consent.always_asks)
    console.agree(f"{verb} {name}", asks=False)
    return name


def mention_namesakes(found: Sequence[Node], does: str) -> None:
    """Note if several living nodes have the name that was given."""
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        console.note(
            f"{len(found)} living nodes have the name {found[0].name}, and all are affected: {ids};"
            f" an ID {does} only one"
        )


def print_nodes_as_json(crontab: "services.crontab.Crontab", nodes: Sequence[Node]) -> None:
    """Print these nodes as they are now."""
    now, ids = crontab.now(), {each.id for each in nodes}
    console.emit_list(json_output.node_shape(each, now) for each in crontab.nodes() if each.id in ids)
