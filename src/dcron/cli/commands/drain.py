"""`drain`: let a node claim no more runs."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import agreed
from dcron.cli.named_nodes import NodeName, mention_namesakes, print_nodes_as_json
from dcron.cli.options import Db, Json
from dcron.cli.waiting import pauses
from dcron.presentation import humanize
from dcron.safetext import safe

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


def command(
    node: NodeName,
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing runs there any more.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Let a node take nothing new; what it runs runs on.

    It holds until `dcron undrain`, or until the agent there is started again. A name drains all living nodes
    that have it, an ID one of them.

    \b
    dcron drain web-1 --wait && ssh web-1 reboot
    """
    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        drained = agreed(Fleet(crontab).drain, "drain", node)
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
            console.data("drained   nothing runs there any more")


def _wait_until_idle(crontab: "Crontab", node_ids: set[str]) -> None:
    """Return when these nodes run nothing, or are no more; tell whenever there is news."""
    told = ""
    for pause in pauses():
        busy = [node for node in crontab.nodes() if node.id in node_ids and node.running]
        if not busy:
            return
        news = ", ".join(f"{humanize.plural(node.running, 'command')} on {node.id}" for node in busy)
        if news != told:
            console.note(f"still running: {news}")
            told = news
        time.sleep(pause)
