"""`undrain`: let a node claim runs again."""

from dcron import services
from dcron.cli.asking.options import Db, Json, NodeName
from dcron.cli.commands.drain import change_nodes, print_as_json
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab
from dcron.values.safe_text import safe


def command(node: NodeName, as_json: Json = False, db: Db = None) -> None:
    """Let a drained node claim runs again.

    \b
    dcron undrain web-1

    It claims runs from its next heartbeat on.
    """
    with opened_crontab(db) as crontab:
        fleet = services.fleet.Fleet(crontab)
        found = change_nodes(fleet, fleet.undrain, "undrain", node)
        if as_json:
            print_as_json(crontab, found)
            return
        for each in found:
            effect = "claims runs again" if each.draining else "was not draining"
            console.data(f"undrained  {safe(each.id)}, which {effect}")
