"""Write the messages about alerts. All foreign text in them is made inert."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.model import Alert, AlertKind, Notification, RunState
from dcron.notifying import Message
from dcron.policy.alert_facts import AlertFacts
from dcron.presentation import alerts, humanize
from dcron.presentation.blame import Blame
from dcron.presentation.blame import of as blame_of
from dcron.presentation.humanize import plural
from dcron.values.safe_text import safe, safe_line

MOST_NAMED = 20
"""Alerts of one kind that a message names; it counts the others."""
MOST_IN_FULL = 3
"""Alerts up to which a message has all that is known of each, with the last lines of the output."""
MOST_IN_FACTS = 100
MOST_BYTES = 60_000
"""Bytes of a text. A message is at most 100 kB with its facts."""
_NAME_CELLS = 100
_LINE_CELLS = 400
_SUBJECT_CELLS = 200
CLOSED, REMINDER, OPENED = "closed", "reminder", "opened"
_ORDER = (OPENED, REMINDER, CLOSED)
OLD_KEYS = {"count": "times", "run_id": "run"}
"""What programs read until 0.2, and still find beside the keys of today."""


@dataclass(frozen=True)
class AlertItem:
    """A notification, and the alert that it is about."""

    notification: Notification
    facts: AlertFacts | None
    """None where the alert is gone."""
    now: datetime


@dataclass(frozen=True)
class _News:
    """What a message says about one alert."""

    facts: AlertFacts
    status: str
    """One of `_ORDER`. An alert that was opened and closed since the last message is closed."""
    now: datetime

    @property
    def alert(self) -> Alert:
        """The alert."""
        return self.facts.alert

    @property
    def name(self) -> str:
        """Its subject, made inert."""
        return safe(alerts.name(self.alert), _NAME_CELLS)

    @property
    def word(self) -> str:
        """What is wrong, made inert."""
        return safe(alerts.word(self.alert.kind), _NAME_CELLS)

    @property
    def ending(self) -> str:
        """How it was closed, made inert."""
        return safe(alerts.ending(self.alert), _NAME_CELLS)

    @property
    def cause(self) -> str:
        """What is known of its cause, made inert."""
        return safe(alerts.cause(self.facts, self.now), _LINE_CELLS)

    @property
    def blame(self) -> Blame | None:
        """What changed before it began."""
        return blame_of(self.facts)


def compose(items: Sequence[AlertItem]) -> Message:
    """Return the message about these notifications. Its ID is the caller's."""
    first = items[0].notification
    if actor := first.facts.get("test"):
        return compose_test(first.channel, str(actor))
    news = _news(items)
    if not news:
        return Message("", f"[dcron] {plural(len(items), 'notification')}", "The alerts are gone.\n")
    subject = _subject(news[0]) if len(news) == 1 else ", ".join(map(_counted, _groups(news)))
    text = "\n".join(_lines(news)) + "\n"
    return Message("", safe(f"[dcron] {subject}", _SUBJECT_CELLS), _shortened(text), _facts(news))


def compose_test(channel: str, actor: str) -> Message:
    """Return the message that tests a channel. Its ID is the caller's."""
    channel, actor = safe(channel, _NAME_CELLS), safe(actor, _NAME_CELLS)
    text = f"{actor} tests the channel {channel} with `dcron channel test`.\n"
    return Message("", f"[dcron] test of the channel {channel}", text)


def _news(items: Iterable[AlertItem]) -> list[_News]:
    """Return what to say about each alert, in the order of the notifications."""
    found: dict[int, _News] = {}
    for item in items:
        if item.facts is not None:
            kind = item.notification.kind
            status = kind if kind in _ORDER else OPENED
            known = found.get(item.facts.alert.id)
            if known is None or _ORDER.index(status) > _ORDER.index(known.status):
                found[item.facts.alert.id] = _News(item.facts, status, item.now)
    return list(found.values())


def _groups(news: Iterable[_News]) -> list[list[_News]]:
    """Return the alerts of each status and kind, and of each way to end, together; the new ones first."""
    groups: dict[tuple[int, str, str], list[_News]] = {}
    for each in news:
        end = _end(each) if each.status == CLOSED else ""
        groups.setdefault((_ORDER.index(each.status), each.alert.kind, end), []).append(each)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


# The subject ------------------------------------------------------------------------------------------


def _subject(news: _News) -> str:
    """Return `backup FAILING: exit 3 (run 8123)`, or `backup RECOVERED after 3h 20m`."""
    alert = news.alert
    if news.status == CLOSED:
        seconds = ((alert.closed_at or news.now) - alert.opened_at).total_seconds()
        return f"{news.name} {_end(news)} after {humanize.span(seconds)}"
    still = "STILL " if news.status == REMINDER else ""
    run = news.facts.run
    result = f": {humanize.result(run, news.now)} (run {run.id})" if run and run.state.is_final else ""
    return f"{news.name} {still}{news.word.upper()}{result}"


def _counted(group: Sequence[_News]) -> str:
    """Return `1,000 tasks FAILING`."""
    first = group[0]
    if len(group) == 1:
        return _subject(first).partition(":")[0]
    subject = plural(len(group), _noun(first.alert))
    if first.status == CLOSED:
        return f"{subject} {_end(first)}"
    return f"{subject} {'STILL ' if first.status == REMINDER else ''}{first.word.upper()}"


def _end(news: _News) -> str:
    """Return `RECOVERED`, or what else the end of an alert is called in a subject."""
    if alerts.is_abandoned(news.alert):
        how, _, rest = news.ending.partition(" ")
        return f"{how.upper()} {rest}"
    return "RECOVERED" if news.alert.kind == AlertKind.FAILING else news.ending


def _noun(alert: Alert) -> str:
    if alert.task is not None:
        return "task"
    kind, _, name = alert.subject.partition(":")
    return safe(kind, _NAME_CELLS) if name else "alert"


# The text ---------------------------------------------------------------------------------------------


def _lines(news: Sequence[_News]) -> Iterator[str]:
    if len(news) <= MOST_IN_FULL:
        for each in news:
            yield from _in_full(each)
            yield ""
    else:
        for group in _groups(news):
            yield from _together(group)
            yield ""
    is_over = all(each.status == CLOSED for each in news)
    yield "To see more:" if is_over else "To see more, and to stop reminders:"
    yield from (f"  {command}" for command in _commands(news))


def _together(group: Sequence[_News]) -> Iterator[str]:
    """Yield `1,000 tasks failing since …, 998 lost with node web-2:` and the first ones."""
    first = group[0]
    word = first.ending if first.status == CLOSED else first.word
    still = "still " if first.status == REMINDER else ""
    since = alerts.time(min(each.alert.opened_at for each in group), seconds=True)
    yield f"{plural(len(group), _noun(first.alert))} {still}{word} since {since}{_lost(group)}:"
    for each in group[:MOST_NAMED]:
        known = f": {each.cause}" if each.cause else ""
        blame = each.blame
        began = f"; {safe(blame.text, _LINE_CELLS)}" if blame and each.status != CLOSED else ""
        yield f"  {each.name}{known}{began}"
    if len(group) > MOST_NAMED:
        yield f"  and {len(group) - MOST_NAMED:,} more"


def _lost(group: Sequence[_News]) -> str:
    """Return how many were lost with which nodes."""
    runs = (each.facts.run for each in group)
    nodes = Counter(run.node or "" for run in runs if run and run.state is RunState.LOST)
    named = [f"{number:,} lost with node {safe(node, _NAME_CELLS)}" for node, number in nodes.most_common(3)]
    return "".join(f", {each}" for each in named)


def _in_full(news: _News) -> Iterator[str]:
    """Yield all that is known of an alert."""
    alert, facts = news.alert, news.facts
    if news.status == CLOSED:
        yield f"{news.name} {'was' if alerts.is_abandoned(alert) else 'is'} {news.ending}."
    else:
        yield f"{news.name} is {'still ' if news.status == REMINDER else ''}{news.word}."
    yield ""
    yield f"since      {alerts.time(alert.opened_at, seconds=True)}" + (
        f", {plural(alert.times, 'time')}" if alert.times > 1 else ""
    )
    if alert.closed_at:
        yield f"until      {alerts.time(alert.closed_at, seconds=True)}"
    if news.cause:
        yield f"cause      {news.cause}"
    if facts.last_success and facts.last_success.finished_at:
        node = f" on {safe(facts.last_success.node, _NAME_CELLS)}" if facts.last_success.node else ""
        yield f"succeeded  {alerts.time(facts.last_success.finished_at, seconds=True)}{node}"
    if facts.next_run_at:
        yield f"next run   {alerts.time(facts.next_run_at, seconds=True)}"
    if news.status != CLOSED:
        yield from _what_changed(news)
        yield from _output(news)


def _what_changed(news: _News) -> Iterator[str]:
    if blame := news.blame:
        yield f"changed    it {safe(blame.text, _LINE_CELLS)}{':' if blame.difference else ''}"
        yield from (f"           {safe(line, _LINE_CELLS)}" for line in blame.difference)
        if blame.change_id is not None:
            yield f"           dcron undo --change {blame.change_id}"


def _output(news: _News) -> Iterator[str]:
    if news.facts.output:
        yield ""
        yield "The last lines of its output:"
        yield from (f"  {safe_line(line, _LINE_CELLS)}" for line in news.facts.output)


def _commands(news: Sequence[_News]) -> list[str]:
    """Return three commands to type."""
    still_open = [each for each in news if each.status != CLOSED]
    first = (still_open or news)[0]
    subject = safe(first.alert.task or first.alert.subject, _NAME_CELLS)
    last = _acknowledgement(still_open) if still_open else "dcron alerts --all"
    if len(news) > 1 or first.alert.task is None:
        return ["dcron alerts", "dcron report --since 24h", last]
    run = first.facts.run
    log = f"dcron logs {run.id}" if run and run.started_at else f"dcron view {subject}"
    return [log, f"dcron why {subject}", last]


def _acknowledgement(still_open: Sequence[_News]) -> str:
    """Return what to type to acknowledge these alerts, or the first few of them."""
    alerts_by_subject = dict.fromkeys(each.alert.task or each.alert.subject for each in still_open)
    subjects = [safe(each, _NAME_CELLS) for each in alerts_by_subject][:MOST_IN_FULL]
    return f"dcron ack {' '.join(subjects)}"


def _shortened(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= MOST_BYTES:
        return text
    return encoded[:MOST_BYTES].decode(errors="ignore").rpartition("\n")[0] + "\n…\n"


def _facts(news: Sequence[_News]) -> Mapping[str, Any]:
    """Return what a program that receives the message reads."""
    return {"alerts": [_shape(each) for each in news[:MOST_IN_FACTS]], "alerts_in_all": len(news)}


def _shape(news: _News) -> dict[str, Any]:
    alert, run, blame = news.alert, news.facts.run, news.blame
    found = {
        "id": alert.id,
        "status": news.status,
        "kind": safe(alert.kind, _NAME_CELLS),
        "subject": safe(alert.subject, _NAME_CELLS),
        "task": alert.task and safe(alert.task, _NAME_CELLS),
        "opened_at": _instant(alert.opened_at),
        "closed_at": _instant(alert.closed_at),
        "closed_as": alert.closed_as and safe(alert.closed_as, _NAME_CELLS),
        "count": alert.times,
        "run_id": run.id if run else alert.last_run_id,
        "node": safe(run.node, _NAME_CELLS) if run and run.node else None,
        "exit_code": run.exit_code if run else None,
        "cause": safe(news.cause, _NAME_CELLS),
        "began": safe(blame.text, _NAME_CELLS) if blame else None,
    }
    return found | {old: found[key] for key, old in OLD_KEYS.items()}


def _instant(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else None
