"""`thaw`: end freezes."""

from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, argument, freeze_number
from dcron.cli.output import console
from dcron.cli.output.json_output import freeze_shape
from dcron.cli.running.context import opened_crontab


def command(
    freezes: Annotated[
        list[int] | None,
        argument(
            "FREEZE...",
            "Numbers of freezes, as `dcron freeze list` shows them [default: the one that holds].",
            parser=freeze_number,
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """End a freeze: runs start by themselves again.

    \b
    dcron thaw
    dcron thaw 3

    The catch-up rule of each task decides about its missed occurrences. A freeze that has not begun is
    withdrawn. If another freeze holds, the crontab stays frozen.
    """
    with opened_crontab(db) as crontab:
        service = services.freezes.Freezes(crontab)
        console.agree("thaw the crontab", asks=False)
        ended = service.thaw(list(dict.fromkeys(freezes or ())))
        still, now = service.active(), crontab.now()
    if as_json:
        console.emit_one_or_list([freeze_shape(each, now) for each in ended])
        return
    for each in ended:
        word = "thawed" if each.thawed_at and each.thawed_at > each.from_at else "withdrawn"
        console.data(f"freeze {each.id}  {word}")
    if still:
        console.note(f"freeze {still.id} still holds: nothing starts by itself")
