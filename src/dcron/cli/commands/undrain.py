"""`undrain`: let a node claim runs again."""

from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import agreed
from dcron.cli.named_nodes import NodeName, mention_namesakes, print_nodes_as_json
from dcron.cli.options import Db, Json
from dcron.safetext import safe

if TYPE_CHECKING:
    pass


def command(node: NodeName, as_json: Json = False, db: Db = None) -> None:
    """End the draining of a node: it takes runs again.

    It does from its next heartbeat on.
    """
    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        found = agreed(Fleet(crontab).undrain, "undrain", node)
        mention_namesakes(found, "undrains")
        if as_json:
            print_nodes_as_json(crontab, found)
            return
        for each in found:
            told = "takes runs again" if each.draining else "was not draining"
            console.data(f"undrained  {safe(each.id)}, which {told}")
