"""Shell completion of arguments and options, chosen by the metavar: ZONE, RUN, skip|queue.

Errors are not reported, because the user is still typing. Shells evaluate what is offered: bash inserts it
unquoted, and zsh runs `eval` on words and descriptions. So `offers`, through which everything goes, lets only
inert characters through.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dcron import config, policy, presentation, services
from dcron.errors import DcronError


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
    return any(
        part in _LOCAL or part in _IN_CRONTAB or _LITERAL.fullmatch(part) for part in _parts(metavar or "")
    )


def offers(metavar: str, ctx: Any, beginning: str) -> list[Offer]:
    """Return the words for each part of a metavar such as `N|none`."""
    found: list[str | Offer] = []
    for part in _parts(metavar):
        if _LITERAL.fullmatch(part):
            found.append(part)
        if part in _LOCAL:
            found += _LOCAL[part](beginning)
        if part in _IN_CRONTAB:
            found += _query(ctx, _IN_CRONTAB[part], beginning)
    described = dict(each if isinstance(each, tuple) else (each, "") for each in found)
    fitting = (word for word in described if word.startswith(beginning) and _INERT.fullmatch(word))
    return [(word, inert(described[word])) for word in islice(fitting, _MOST)]


def words(metavar: str, ctx: Any, beginning: str) -> list[str]:
    """Return the same without descriptions."""
    return [word for word, _ in offers(metavar, ctx, beginning)]


def _parts(metavar: str) -> list[str]:
    return metavar.removesuffix("...").strip("[]").split("|")


Reader = Callable[["services.crontab.Crontab", str, str], Iterable[str | Offer]]
"""Reads words of a crontab, given what was typed and the verb."""


def _query(ctx: Any, read: Reader, beginning: str) -> list[str | Offer]:
    """Return the words of the crontab, or none if its database cannot be read.

    If the context has a crontab, as on the screen, read that one and open no connection.
    """
    from dcron.cli.running.context import new_database

    verb = str(ctx.info_name) if ctx is not None else ""
    if ctx is not None and isinstance(crontab := ctx.find_root().obj, services.crontab.Crontab):
        return list(read(crontab, beginning, verb))
    os.environ.setdefault("DCRON_PATIENCE", "1s")
    try:
        with closing(new_database(_url(ctx), readonly=True)) as database:
            path = database.address.path
            if path and not path.exists():  # completion must not create a database
                return []
            return list(read(services.crontab.Crontab(database, config.files.actor()), beginning, verb))
    except DcronError:
        return []


def _url(ctx: Any) -> str | None:
    """Return the URL given by --db, behind the verb or before it."""
    while ctx is not None:
        if url := ctx.params.get("db"):
            return str(url)
        ctx = ctx.parent
    return None


def _runs(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[Offer]:
    """Yield the runs that the verb can act on, the newest first."""
    from dcron.model import RunState
    from dcron.values.lists import RunFilter

    unfinished = [RunState.WAITING, RunState.CLAIMED, RunState.RUNNING]
    dead = RunFilter(dead=True)
    filters = {"cancel": RunFilter(states=unfinished), "retry": dead, "dismiss": dead}
    for run in crontab.runs(filters.get(verb, RunFilter()), _MOST):
        yield str(run.id), f"{run.task} {run.state.value}"


def _freezes(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[Offer]:
    """Yield the numbers of freezes that hold or are planned, with their reasons."""
    now = crontab.now()
    for freeze in services.freezes.Freezes(crontab).listing(_MOST):
        if (state := policy.starting.freezes.state_of(freeze, now)) != "over":
            yield str(freeze.id), f"{state}: {freeze.reason}" if freeze.reason else state


def _alerts(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[Offer]:
    """Yield the numbers of open alerts, the newest first."""
    alerts = presentation.alerts
    for facts in services.alerts.Alerts(crontab).page(limit=_MOST):
        yield str(facts.alert.id), f"{alerts.name(facts.alert)} {alerts.word(facts.alert.kind)}"


def _of_nodes(*kinds: str) -> Reader:
    """Return the reader of these attributes of living nodes."""

    def read(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[str]:
        for node in services.fleet.Fleet(crontab).living():
            for found in (getattr(node, kind) for kind in kinds):
                yield from [found] if isinstance(found, str) else found

    return read


def _channels(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[str | Offer]:
    """Yield the channels of living nodes; `mailto` is no whole name of one."""
    found = _of_nodes("channels")(crontab, typed, verb)
    yield from (name for name in found if name != config.channels.MAILTO)


def _queues(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterator[str | Offer]:
    """Yield the queues with a limit, with active runs, or served by an agent."""
    yield from (queue.name for queue in services.fleet.Fleet(crontab).queues())
    yield from _of_nodes("queues")(crontab, typed, verb)


def _labels(crontab: "services.crontab.Crontab", typed: str, verb: str) -> Iterable[str]:
    """Return the labels that tasks have, such as `team=shop`."""
    return crontab.labels(typed, _MOST)


def _configured(part: str) -> Iterable[str]:
    """Return the names in a part of the config files."""
    try:
        return sorted(getattr(config.files.load_config(), part))
    except DcronError:
        return ()


def _zones(typed: str) -> Iterable[str]:
    from dcron.schedule.zones import zone_names

    return (name for name in zone_names() if name.startswith(typed))


def _states(typed: str) -> Iterable[str]:
    from dcron.model import RunState

    return RunState


def _accounts(typed: str) -> Iterable[str]:
    import pwd

    return sorted(entry.pw_name for entry in pwd.getpwall())


def _clearable(typed: str) -> Iterable[str]:
    from dcron.fields import CLEARABLE

    return CLEARABLE


def _settings(typed: str) -> Iterable[Offer]:
    from dcron.settings.registry import SETTINGS

    return [(name, setting.help) for name, setting in SETTINGS.items()]


_LOCAL: Mapping[str, Callable[[str], Iterable[str | Offer]]] = {
    "CHANNEL": lambda typed: _configured("notify"),
    "CONTEXT": lambda typed: _configured("contexts"),
    "OPTION": _clearable,
    "QUEUE": lambda typed: ["default"],
    "SCHEDULE": lambda typed: ("@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@reboot"),
    "SETTING": _settings,
    "SINCE": lambda typed: ("1h", "today", "yesterday"),
    "STATE": _states,
    "USER": _accounts,
    "ZONE": _zones,
}
"""What needs no database, by metavar."""
_IN_CRONTAB: Mapping[str, Reader] = {
    "ALERT": _alerts,
    "CALENDAR": lambda crontab, typed, verb: services.calendars.Calendars(crontab).names(typed, _MOST),
    "CHANNEL": _channels,
    "EVENT": lambda crontab, typed, verb: crontab.events(_MOST),
    "FREEZE": _freezes,
    "K=V": _labels,
    "NAME": lambda crontab, typed, verb: crontab.names(typed, _MOST),
    "NODE": _of_nodes("name", "id"),
    "QUEUE": _queues,
    "RUN": _runs,
    "SELECTOR": _labels,
    "SOURCE": lambda crontab, typed, verb: services.changes.applied.Apply(crontab).sources(),
    "TAG": _of_nodes("tags"),
}
"""What the crontab has, by metavar."""
