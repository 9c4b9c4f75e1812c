"""`undrain`: let a node claim runs again."""

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import agreed
from dcron.cli.named_nodes import mention_namesakes, print_nodes_as_json
from dcron.cli.options import Db, Json, NodeName
from dcron.safetext import safe


def command(node: NodeName, as_json: Json = False, db: Db = None) -> None:
    """Let a drained node claim runs again.

    \b
    dcron undrain web-1

    It claims runs from its next heartbeat on.
    """
    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        found = agreed(Fleet(crontab).undrain, "undrain", node)
        mention_namesakes(found, "undrains")
        if as_json:
            print_nodes_as_json(crontab, found)
            return
        for each in found:
            effect = "claims runs again" if each.draining else "was not draining"
            console.data(f"undrained  {safe(each.id)}, which {effect}")
