"""`queue`: limit how many runs of a queue are active at once."""

from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, GuardedWritingVerb, Json, Verb, argument, group, option
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.model import Queue
from dcron.presentation import humanize

QUEUES = [
    TableColumn("QUEUE", least=10),
    TableColumn("LIMIT", right=True),
    TableColumn("RUNNING", right=True),
]
command = group("Limit how many runs of a queue are active at once, over all nodes.")


@command.command("set", cls=GuardedWritingVerb)
def set_queue(
    queue: Annotated[str, argument("QUEUE", "Name of the queue, as in --queue of tasks and agents.")],
    max_running: Annotated[
        str, option("--max-running", "N|none", "Most active runs over all nodes; 0 stops the queue.")
    ],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Set how many runs of a queue may be active at once.

    \b
    dcron queue set mail --max-running 3
    dcron queue set mail --max-running none

    Active runs continue.
    """
    limit = _limit(max_running)
    with opened_crontab(db, creates=True) as crontab:
        fleet = services.fleet.Fleet(crontab)
        console.agree(f"set the limit of the queue {queue} to {max_running}", asks=False)
        fleet.set_queue(queue, limit)
        alive = sum(each.alive for each in fleet.queues() if each.name == queue)
        changed = Queue(name=queue, max_running=limit, alive=alive)
        if as_json:
            console.emit(make("queue", changed))
        else:
            console.data(f"queue {queue}: {_limit_text(changed)}")


@command.command("list", cls=Verb)
def list_queues(as_json: Json = False, db: Db = None) -> None:
    """List the queues that have a limit or active runs."""
    with opened_crontab(db) as crontab:
        found = services.fleet.Fleet(crontab).queues()
        if as_json:
            console.emit_list(make("queue", each) for each in found)
        elif not print_table(QUEUES, map(_queue_row, found)):
            console.note("no queue has a limit; `dcron queue set NAME --max-running N` sets one")


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--max-running {text!r}: give a number, 0 to stop the queue, or none for no limit")
    return int(text[:9])


def _limit_text(queue: Queue) -> str:
    if queue.max_running is None:
        return "no limit"
    if queue.max_running == 0:
        limit = "starts no more runs"
    else:
        limit = f"at most {humanize.plural(queue.max_running, 'run')} at once"
    over = queue.alive > queue.max_running
    return limit + (f"; {queue.alive:,} are active now and continue" if over else "")


def _queue_row(queue: Queue) -> list[str]:
    limit = "none" if queue.max_running is None else f"{queue.max_running:,}"
    over = queue.max_running is not None and queue.alive > queue.max_running
    return [queue.name, limit, AlarmCell(f"{queue.alive:,}") if over else f"{queue.alive:,}"]
