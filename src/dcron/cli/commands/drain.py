"""`drain`: let a node claim no more runs."""

import time
from typing import Annotated

from dcron import services
from dcron.cli.asking.named_nodes import agreed_node, mention_namesakes, print_nodes_as_json
from dcron.cli.asking.options import Db, Json, NodeName, flag
from dcron.cli.output import console
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.waiting import pauses
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
        drained = fleet.drain(agreed_node(fleet, "drain", node))
        mention_namesakes(drained, "drains")
        if not as_json:
            for each in drained:
                busy = humanize.plural(each.running, "command") if each.running else "nothing"
                console.data(f"draining  {safe(each.id)}, which runs {busy}")
        if wait:
            _wait_until_idle(crontab, {each.id for each in drained})
        if as_json:
            print_nodes_as_json(crontab, drained)
        elif wait:
            console.data("drained   no run is active there")


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
