"""`drain`: let a node claim no more runs."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, NodeName, flag
from dcron.cli.asking.which import agreed
from dcron.cli.output import console, json_output
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.waiting import pauses
from dcron.model import Node
from dcron.presentation import humanize
from dcron.values.safe_text import safe


def command(
    node: NodeName,
    wait: Annotated[bool, flag("--wait", "Wait until no run is active there.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Stop a node from claiming runs; its active runs continue.

    \b
    dcron drain web-1 --wait && ssh web-1 reboot

    The node drains until `dcron undrain` or until its agent is restarted. A name drains all living nodes of
    this name, an ID one of them.
    """
    with opened_crontab(db) as crontab:
        fleet = services.fleet.Fleet(crontab)
        drained = change_nodes(fleet, fleet.drain, "drain", node)
        if not as_json:
            for each in drained:
                busy = humanize.plural(each.running, "command") if each.running else "nothing"
                console.data(f"draining  {safe(each.id)}, which runs {busy}")
        if wait:
            _wait_until_idle(crontab, {each.id for each in drained})
        if as_json:
            print_as_json(crontab, drained)
        elif wait:
            console.data("drained   no run is active there")


def change_nodes(
    fleet: "services.fleet.Fleet", change: Callable[[str], Sequence[Node]], verb: str, typed: str
) -> Sequence[Node]:
    """Change the nodes of this name or ID after the user has agreed, and return them. Raises NotFound."""

    def find(name: str) -> str:
        fleet.find(name)
        return name

    name = agreed(find, verb, typed, asks=console.consent.always_asks)
    console.agree(f"{verb} {name}", asks=False)
    found = change(name)
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        console.note(
            f"{len(found)} living nodes have the name {found[0].name}, and all are affected: {ids};"
            f" an ID {verb}s only one"
        )
    return found


def print_as_json(crontab: "services.crontab.Crontab", nodes: Sequence[Node]) -> None:
    """Print these nodes as they are now."""
    now, ids = crontab.now(), {each.id for each in nodes}
    console.emit_list(json_output.node_shape(each, now) for each in crontab.nodes() if each.id in ids)


def _wait_until_idle(crontab: "services.crontab.Crontab", node_ids: set[str]) -> None:
    """Wait until these nodes have no active runs or have ended; print every change."""
    printed = ""
    for pause in pauses():
        busy = [node for node in crontab.nodes() if node.id in node_ids and node.running]
        if not busy:
            return
        news = ", ".join(f"{humanize.plural(node.running, 'command')} on {node.id}" for node in busy)
        if news != printed:
            console.note(f"still running: {news}")
            printed = news
        time.sleep(pause)
