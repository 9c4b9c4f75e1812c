"""What the shell completes, by what an argument or option is called in the help: ZONE, RUN, skip|queue.

Nothing that goes wrong is reported, for the line is still being typed. Only words that no shell obeys are
offered: zsh evaluates what it is given.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from dcron.errors import DcronError

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab

Offer = tuple[str, str]
"""A word and what it is, which zsh and fish show beside it."""
_MOST = 200
_LITERAL = re.compile(r"[a-z][a-z-]*")
_INERT = re.compile(r"[A-Za-z0-9_.+@][A-Za-z0-9_.:+@/=-]*")


def completes(metavar: str | None) -> bool:
    """Return whether there is something to offer for what the help calls so."""
    return any(part in _KINDS or _LITERAL.fullmatch(part) for part in _parts(metavar or ""))


def offers(metavar: str, ctx: Any, beginning: str) -> list[Offer]:
    """Return what may stand where the help says `metavar`: each of its parts between bars."""
    found: list[Offer] = []
    for part in _parts(metavar):
        if _LITERAL.fullmatch(part):
            found.append((part, ""))
        elif part in _KINDS:
            found += _KINDS[part](ctx, beginning)
    return [offer for offer in found if offer[0].startswith(beginning) and _INERT.fullmatch(offer[0])][:_MOST]


def task_names(ctx: Any, beginning: str) -> list[str]:
    """The names of tasks that begin so."""
    return _asked(ctx, lambda crontab: crontab.names(beginning, _MOST))


def calendar_names(ctx: Any, beginning: str) -> list[str]:
    """The names of calendars that begin so."""
    from dcron.services.calendars import Calendars

    return _asked(ctx, lambda crontab: Calendars(crontab).names(beginning, _MOST))


def _parts(metavar: str) -> list[str]:
    return metavar.removesuffix("...").strip("[]").split("|")


def _asked(ctx: Any, ask: "Callable[[Crontab], Iterable[str]]") -> list[str]:
    """What the database says; nothing where it is not there."""
    from dcron.cli.context import new_database
    from dcron.config import actor
    from dcron.services.crontab import Crontab

    os.environ.setdefault("DCRON_PATIENCE", "1s")
    try:
        with closing(new_database(_url(ctx), readonly=True)) as database:
            path = database.address.path
            if path and not path.exists():  # the Tab key makes no database
                return []
            return list(ask(Crontab(database, actor())))
    except DcronError:
        return []


def _url(ctx: Any) -> str | None:
    """The database that is named on the line, behind the verb or before it."""
    while ctx is not None:
        if url := ctx.params.get("db"):
            return str(url)
        ctx = ctx.parent
    return None


def _plain(names: Iterable[str]) -> list[Offer]:
    return [(name, "") for name in dict.fromkeys(names)]


def _runs(ctx: Any, beginning: str) -> list[Offer]:
    """The runs that the verb may act on, the newest first."""
    from dcron.model import RunState
    from dcron.store.runs import RunFilter

    unfinished = [RunState.WAITING, RunState.CLAIMED, RunState.RUNNING]
    wanted = {
        "cancel": RunFilter(states=unfinished),
        "retry": RunFilter(dead=True),
        "dismiss": RunFilter(dead=True),
    }
    found: list[Offer] = []

    def ask(crontab: "Crontab") -> Iterator[str]:
        for run in crontab.runs(wanted.get(ctx.info_name, RunFilter()), _MOST):
            found.append((str(run.id), f"{run.task} {run.state.value}"))
            yield run.task

    _asked(ctx, ask)
    return found


def _nodes(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.fleet import Fleet

    return _plain(
        _asked(
            ctx, lambda crontab: (each for node in Fleet(crontab).living() for each in (node.name, node.id))
        )
    )


def _queues(ctx: Any, beginning: str) -> list[Offer]:
    """Those with a limit, those in which something runs, and those that agents serve."""
    from dcron.services.fleet import Fleet

    def ask(crontab: "Crontab") -> Iterator[str]:
        fleet = Fleet(crontab)
        yield from (queue.name for queue in fleet.queues())
        for node in fleet.living():
            yield from node.queues

    return _plain(["default", *_asked(ctx, ask)])


def _tags(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.fleet import Fleet

    return _plain(_asked(ctx, lambda crontab: (tag for node in Fleet(crontab).living() for tag in node.tags)))


def _zones(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.schedule.zones import zone_names

    return _plain(name for name in zone_names() if name.startswith(beginning))


def _states(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.model import RunState

    return _plain(RunState)


def _accounts(ctx: Any, beginning: str) -> list[Offer]:
    import pwd

    return _plain(sorted(entry.pw_name for entry in pwd.getpwall()))


def _clearable(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.fields import CLEARABLE

    return _plain(CLEARABLE)


def _schedules(ctx: Any, beginning: str) -> list[Offer]:
    macros = ("hourly", "daily", "weekly", "monthly", "yearly", "reboot")
    return _plain(f"@{macro}" for macro in macros)


_KINDS: dict[str, Callable[[Any, str], list[Offer]]] = {
    "CALENDAR": lambda ctx, beginning: _plain(calendar_names(ctx, beginning)),
    "NAME": lambda ctx, beginning: _plain(task_names(ctx, beginning)),
    "NODE": _nodes,
    "OPTION": _clearable,
    "QUEUE": _queues,
    "RUN": _runs,
    "SCHEDULE": _schedules,
    "STATE": _states,
    "TAG": _tags,
    "USER": _accounts,
    "ZONE": _zones,
}
