"""`nodes`, `drain` and `queue`: who runs tasks, and how many at once."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import agreed
from dcron.cli.options import Db, Json, Verb
from dcron.cli.tables import AlarmCell, TableColumn, print_table
from dcron.cli.waiting import pauses
from dcron.errors import UsageError
from dcron.model import Node, NodeState, Queue
from dcron.presentation import humanize
from dcron.quantities import format_amount
from dcron.safetext import safe

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab

NODES = [
    TableColumn("NODE", least=12),
    TableColumn("HOST", least=6),
    TableColumn("PID", right=True, spare=True),
    TableColumn("STATE"),
    TableColumn("ACCOUNT", least=4, spare=True),
    TableColumn("RUNNING", right=True),
    TableColumn("STARTED", right=True),
    TableColumn("LEASE", right=True),
    TableColumn("CLOCK", right=True),
    TableColumn("VERSION"),
    TableColumn("TZDATA"),
]
ROUTES: dict[str, Callable[[Node], str]] = {
    "TAGS": lambda node: " ".join(node.tags),
    "QUEUES": lambda node: " ".join(node.queues) or "all",
    "CAPACITY": lambda node: " ".join(format_amount(*each) for each in node.capacity.items()),
}
"""Columns that are shown when a node has something to say in one of them."""
QUEUES = [
    TableColumn("QUEUE", least=10),
    TableColumn("LIMIT", right=True),
    TableColumn("RUNNING", right=True),
]
CLOCK_TOLERANCE = 2.0
"""Seconds a node's clock may be off before it catches the eye."""

queue_app = typer.Typer(
    help="Limit how many runs of a queue are alive at once, over all nodes.",
    rich_markup_mode=None,
    add_completion=False,
)


def nodes(as_json: Json = False, db: Db = None) -> None:
    """List the running agents, and those that ended within a day.

    With the tags, queues and capacity they were given, when any of them was given some.
    """
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        found = crontab.nodes()
        now = crontab.now()
        if as_json:
            console.emit_list(json_output.node_shape(node, now) for node in found)
        elif not _print_nodes(found, now):
            console.note("no agents yet: start `dcron agent` on each server that should run tasks")
        _tell_of_zones(found, now)


NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="A node's whole name or ID, as `dcron nodes` shows it.")
]


def drain(
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
        _mention_namesakes(drained, "drains")
        if not as_json:
            for each in drained:
                busy = humanize.plural(each.running, "command") if each.running else "nothing"
                console.data(f"draining  {safe(each.id)}, which runs {busy}")
        if wait:
            _wait_until_idle(crontab, {each.id for each in drained})
        if as_json:
            _print_nodes_as_json(crontab, drained)
        elif wait:
            console.data("drained   nothing runs there any more")


def undrain(node: NodeName, as_json: Json = False, db: Db = None) -> None:
    """End the draining of a node: it takes runs again.

    It does from its next heartbeat on.
    """
    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        found = agreed(Fleet(crontab).undrain, "undrain", node)
        _mention_namesakes(found, "undrains")
        if as_json:
            _print_nodes_as_json(crontab, found)
            return
        for each in found:
            told = "takes runs again" if each.draining else "was not draining"
            console.data(f"undrained  {safe(each.id)}, which {told}")


def _mention_namesakes(found: Sequence[Node], does: str) -> None:
    """Say so where a name has more than one living node."""
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        console.note(
            f"{found[0].name} is the name of {len(found)} living agents, all of them meant: {ids};"
            f" an ID {does} one"
        )


def _print_nodes_as_json(crontab: "Crontab", wanted: Sequence[Node]) -> None:
    """Print these nodes as they are now."""
    from dcron.cli import json_output

    now, ids = crontab.now(), {each.id for each in wanted}
    console.emit([json_output.node_shape(each, now) for each in crontab.nodes() if each.id in ids])


@queue_app.command("set", cls=Verb)
def set_queue(
    queue: Annotated[
        str, typer.Argument(metavar="QUEUE", help="The queue's name, as in --queue of tasks and agents.")
    ],
    max_running: Annotated[
        str,
        typer.Option(
            "--max-running", metavar="N|none", help="Runs alive at once, over all nodes; 0 stops it."
        ),
    ],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Set how many runs of a queue may be alive at once. What runs runs on.

    \b
    dcron queue set mail --max-running 3
    dcron queue set mail --max-running none
    """
    from dcron.cli import json_output

    limit = _limit(max_running)
    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        fleet = Fleet(crontab)
        fleet.set_queue(queue, limit)
        alive = sum(each.alive for each in fleet.queues() if each.name == queue)
        changed = Queue(name=queue, max_running=limit, alive=alive)
        if as_json:
            console.emit(json_output.queue_shape(changed))
        else:
            console.data(f"queue {queue}: {_told(changed)}")


@queue_app.command("list", cls=Verb)
def list_queues(as_json: Json = False, db: Db = None) -> None:
    """List the queues that were given a limit, or in which something runs."""
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        from dcron.services.fleet import Fleet

        found = Fleet(crontab).queues()
        if as_json:
            console.emit_list(map(json_output.queue_shape, found))
        elif not print_table(QUEUES, map(_queue_row, found)):
            console.note("no queue has a limit; `dcron queue set NAME --max-running N` sets one")


def _print_nodes(found: Sequence[Node], now: datetime) -> int:
    said = any(node.tags or node.queues or node.capacity for node in found)
    routes = ROUTES if said else {}
    columns = [*NODES, *(TableColumn(title, least=6) for title in routes)]
    rows = ([*_node_row(node, now), *(told(node) for told in routes.values())] for node in found)
    return print_table(columns, rows)


def _node_row(node: Node, now: datetime) -> list[str]:
    state = node.state(now)
    ended = state in (NodeState.STOPPED, NodeState.DEAD)
    lease = "" if ended else humanize.left(node.alive_until, now)
    return [
        node.id,
        node.host,
        str(node.pid),
        AlarmCell(state.value) if state in (NodeState.LATE, NodeState.DEAD) else state.value,
        humanize.accounts(node),
        f"{node.running}/{node.slots}",
        humanize.ago(node.started_at, now),
        lease,
        _clock_offset(node),
        node.version,
        node.tzdata,
    ]


def _tell_of_zones(found: Iterable[Node], now: datetime) -> None:
    """Say so where living nodes do not have the same time zones."""
    living = [node for node in found if node.state(now) in (NodeState.ALIVE, NodeState.DRAINING)]
    by_zones: dict[tuple[str, str | None], list[str]] = {}
    for node in living:
        by_zones.setdefault((node.tzdata, node.tzdata_fingerprint), []).append(node.name)
    if len(by_zones) > 1:
        told = "; ".join(
            f"{version}{f' ({digits})' if digits else ''} on {', '.join(sorted(set(names))[:5])}"
            + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            for (version, digits), names in sorted(by_zones.items(), key=str)
        )
        console.complain(
            f"warning: the nodes' time zones differ: tzdata {told}. Where a zone's rules have changed between"
            " these, a task's next time depends on which node plans it: install the newest tzdata on all"
        )


def _clock_offset(node: Node) -> str:
    if node.clock_offset is None:
        return ""
    told = f"{node.clock_offset:+.1f}s"
    return AlarmCell(told) if abs(node.clock_offset) > CLOCK_TOLERANCE else told


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


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--max-running {text!r}: give a number, 0 to stop the queue, or none for no limit")
    return int(text[:9])


def _told(queue: Queue) -> str:
    if queue.max_running is None:
        return "no limit"
    if queue.max_running == 0:
        limit = "nothing is started from now on"
    else:
        limit = f"at most {humanize.plural(queue.max_running, 'run')} at once"
    over = queue.alive > queue.max_running
    return limit + (f"; {queue.alive:,} are alive now, and run on" if over else "")


def _queue_row(queue: Queue) -> list[str]:
    limit = "none" if queue.max_running is None else f"{queue.max_running:,}"
    over = queue.max_running is not None and queue.alive > queue.max_running
    return [queue.name, limit, AlarmCell(f"{queue.alive:,}") if over else f"{queue.alive:,}"]
