"""Shell completion of arguments and options, chosen by the metavar: ZONE, RUN, skip|queue.

Errors are not reported, because the user is still typing. Shells evaluate what is offered: bash inserts it
unquoted, and zsh runs `eval` on words and descriptions. So `offers`, through which everything goes, lets only
inert characters through.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from dcron.errors import DcronError

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


@dataclass
class Offered:
    """A completion, like typer's own class, which moves between versions of typer."""

    value: str
    type: str = "plain"
    help: str | None = None


Offer = tuple[str, str]
"""A word and its description, which zsh and fish show."""
_MOST = 200
_LITERAL = re.compile(r"[a-z][a-z-]*")
_INERT = re.compile(r"[A-Za-z0-9_.+@][A-Za-z0-9_.:+@/=-]*")
_NOT_INERT = re.compile(r"[^\w.,:+@/=-]+")
_LONGEST_DESCRIPTION = 100


def inert(text: str) -> str:
    """Return a description with a space for what a shell or a terminal could take for more than letters.

    In encodings such as Shift-JIS, the second byte of a letter may be a backquote or a backslash.
    """
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        text = text.encode("ascii", errors="replace").decode()
    return _NOT_INERT.sub(" ", text.replace(";", ","))[:_LONGEST_DESCRIPTION].strip()


def completes(metavar: str | None) -> bool:
    """Return whether words can be offered for this metavar."""
    return any(part in _KINDS or _LITERAL.fullmatch(part) for part in _parts(metavar or ""))


def offers(metavar: str, ctx: Any, beginning: str) -> list[Offer]:
    """Return the words for each part of a metavar such as `N|none`."""
    found: list[Offer] = []
    for part in _parts(metavar):
        if _LITERAL.fullmatch(part):
            found.append((part, ""))
        elif part in _KINDS:
            found += _KINDS[part](ctx, beginning)
    fitting = (offer for offer in found if offer[0].startswith(beginning) and _INERT.fullmatch(offer[0]))
    return [(word, inert(text)) for word, text in islice(fitting, _MOST)]


def words(metavar: str, ctx: Any, beginning: str) -> list[str]:
    """Return the same without descriptions."""
    return [word for word, _ in offers(metavar, ctx, beginning)]


def _parts(metavar: str) -> list[str]:
    return metavar.removesuffix("...").strip("[]").split("|")


def _query(ctx: Any, read: "Callable[[Crontab], Iterable[str]]") -> list[str]:
    """Return the answer of the database, or nothing if it cannot be read.

    If the context has a crontab, as on the screen, read that one and open no connection.
    """
    from dcron.cli.running.context import new_database
    from dcron.config.files import actor
    from dcron.services.crontab import Crontab

    if ctx is not None and isinstance(crontab := ctx.find_root().obj, Crontab):
        return list(read(crontab))
    os.environ.setdefault("DCRON_PATIENCE", "1s")
    try:
        with closing(new_database(_url(ctx), readonly=True)) as database:
            path = database.address.path
            if path and not path.exists():  # completion must not create a database
                return []
            return list(read(Crontab(database, actor())))
    except DcronError:
        return []


def _url(ctx: Any) -> str | None:
    """Return the URL given by --db, behind the verb or before it."""
    while ctx is not None:
        if url := ctx.params.get("db"):
            return str(url)
        ctx = ctx.parent
    return None


def _plain(names: Iterable[str]) -> list[Offer]:
    return [(name, "") for name in dict.fromkeys(names)]


def _runs(ctx: Any, beginning: str) -> list[Offer]:
    """Return the runs that the verb can act on, the newest first."""
    from dcron.model import RunState
    from dcron.store.runs.rows import RunFilter

    unfinished = [RunState.WAITING, RunState.CLAIMED, RunState.RUNNING]
    filters = {
        "cancel": RunFilter(states=unfinished),
        "retry": RunFilter(dead=True),
        "dismiss": RunFilter(dead=True),
    }
    found: list[Offer] = []

    def ask(crontab: "Crontab") -> Iterator[str]:
        for run in crontab.runs(filters.get(ctx.info_name, RunFilter()), _MOST):
            found.append((str(run.id), f"{run.task} {run.state.value}"))
            yield run.task

    _query(ctx, ask)
    return found


def _freezes(ctx: Any, beginning: str) -> list[Offer]:
    """Return the numbers of freezes that hold or are planned, with their reasons."""
    from dcron.policy.starting.freezes import state_of
    from dcron.services.freezes import Freezes

    found: list[Offer] = []

    def ask(crontab: "Crontab") -> Iterator[str]:
        now = crontab.now()
        for freeze in Freezes(crontab).listing(_MOST):
            if (state := state_of(freeze, now)) != "over":
                found.append((str(freeze.id), f"{state}: {freeze.reason}" if freeze.reason else state))
                yield str(freeze.id)

    _query(ctx, ask)
    return found


def _alerts(ctx: Any, beginning: str) -> list[Offer]:
    """Return the numbers of open alerts, the newest first."""
    from dcron.presentation import alerts
    from dcron.services.alerts import Alerts

    found: list[Offer] = []

    def ask(crontab: "Crontab") -> Iterator[str]:
        for facts in Alerts(crontab).page(limit=_MOST):
            alert = facts.alert
            found.append((str(alert.id), f"{alerts.name(alert)} {alerts.word(alert.kind)}"))
            yield alert.subject

    _query(ctx, ask)
    return found


def _calendars(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.calendars import Calendars

    return _plain(_query(ctx, lambda crontab: Calendars(crontab).names(beginning, _MOST)))


def _nodes(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.fleet import Fleet

    return _plain(
        _query(
            ctx, lambda crontab: (each for node in Fleet(crontab).living() for each in (node.name, node.id))
        )
    )


def _channels(ctx: Any, beginning: str) -> list[Offer]:
    """Return the channels of living nodes and of this machine."""
    from dcron.config.channels import MAILTO
    from dcron.config.files import load_config
    from dcron.services.fleet import Fleet

    living = _query(ctx, lambda crontab: (each for node in Fleet(crontab).living() for each in node.channels))
    try:
        own = list(load_config().notify)
    except DcronError:
        own = []
    return _plain(sorted({*own, *living} - {MAILTO}))


def _labels(ctx: Any, beginning: str) -> list[Offer]:
    """Return the labels that tasks have, such as `team=shop`."""
    return _plain(_query(ctx, lambda crontab: crontab.labels(beginning, _MOST)))


def _queues(ctx: Any, beginning: str) -> list[Offer]:
    """Return the queues with a limit, with active runs, or served by an agent."""
    from dcron.services.fleet import Fleet

    def ask(crontab: "Crontab") -> Iterator[str]:
        fleet = Fleet(crontab)
        yield from (queue.name for queue in fleet.queues())
        for node in fleet.living():
            yield from node.queues

    return _plain(["default", *_query(ctx, ask)])


def _sources(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.changes.applied import Apply

    return _plain(_query(ctx, lambda crontab: Apply(crontab).sources()))


def _tags(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.services.fleet import Fleet

    return _plain(_query(ctx, lambda crontab: (tag for node in Fleet(crontab).living() for tag in node.tags)))


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


def _contexts(ctx: Any, beginning: str) -> list[Offer]:
    """Return the contexts of the config files."""
    from dcron.config.files import load_config

    try:
        return _plain(sorted(load_config().contexts))
    except DcronError:
        return []


def _settings(ctx: Any, beginning: str) -> list[Offer]:
    from dcron.settings.registry import SETTINGS

    return [(name, setting.help) for name, setting in SETTINGS.items()]


_KINDS: dict[str, Callable[[Any, str], list[Offer]]] = {
    "ALERT": _alerts,
    "CALENDAR": _calendars,
    "CHANNEL": _channels,
    "CONTEXT": _contexts,
    "EVENT": lambda ctx, beginning: _plain(_query(ctx, lambda crontab: crontab.events(_MOST))),
    "FREEZE": _freezes,
    "K=V": _labels,
    "NAME": lambda ctx, beginning: _plain(_query(ctx, lambda crontab: crontab.names(beginning, _MOST))),
    "NODE": _nodes,
    "OPTION": _clearable,
    "QUEUE": _queues,
    "RUN": _runs,
    "SCHEDULE": _schedules,
    "SELECTOR": _labels,
    "SETTING": _settings,
    "SINCE": lambda ctx, beginning: _plain(("1h", "today", "yesterday")),
    "SOURCE": _sources,
    "STATE": _states,
    "TAG": _tags,
    "USER": _accounts,
    "ZONE": _zones,
}
