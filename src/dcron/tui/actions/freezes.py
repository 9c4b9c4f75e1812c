"""Freeze and thaw the crontab."""

import shlex
from collections.abc import Sequence
from datetime import datetime, tzinfo

from dcron.errors import UsageError
from dcron.model import Freeze
from dcron.policy.starting.freezes import state_of
from dcron.policy.validation import require_text
from dcron.presentation.freezes import sentence
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone
from dcron.services.freezes import Freezes
from dcron.tui.forms.dialogs import Question, fill
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act

MOST = 100


def freeze(host: Host) -> None:
    """Ask for a reason and an end, and let nothing start by itself."""
    if not host.may_act([host]):
        return

    questions = [
        Question("reason", "for the others; may be empty", lambda text: require_text("reason", text)),
        Question(
            "until",
            "tomorrow 06:00, +2h; empty: until it is thawed",
            lambda text: _end(text, host.zone, host.health.now()),
        ),
    ]
    fill(
        host,
        "freeze the crontab: nothing starts by itself, on any node",
        questions,
        lambda reason, until: host.act([_freeze(host.zone, reason.strip(), until.strip())]),
    )


def thaw(host: Host) -> None:
    """End the freezes that hold. Always asks."""
    if not host.may_act([host]):
        return

    def ask(found: Sequence[Freeze]) -> None:
        now = host.health.now()
        holding = [each for each in found if state_of(each, now) == "active"]
        if not holding:
            host.report("nothing is frozen")
            return
        details = [sentence(each, host.zone, now) for each in holding]
        details.append("missed occurrences are caught up as each task says")
        host.confirm("thaw the crontab", details, lambda: host.act([_thaw([each.id for each in holding])]))

    host.fetch(lambda board: Freezes(board.crontab).listing(MOST), ask)


def _freeze(here: tzinfo, reason: str, until: str) -> Act:
    words = [*(["--until", until] if until else []), *(["--reason", reason] if reason else [])]
    return Act(
        "freeze the crontab",
        shlex.join(["dcron", "freeze", *words]),
        lambda crontab: Freezes(crontab).freeze(
            until_at=_end(until, here, crontab.now()), reason=reason or None
        ),
        lambda frozen: f"freeze {frozen.id}: nothing starts by itself",
    )


def _thaw(ids: Sequence[int]) -> Act:
    return Act(
        "thaw the crontab",
        shlex.join(["dcron", "thaw", *map(str, ids)]),
        lambda crontab: Freezes(crontab).thaw(ids),
        lambda _: "thawed: runs start by themselves again",
    )


def _end(text: str, here: tzinfo, now: datetime) -> datetime | None:
    """Return the end of the freeze, typed in the screen's local time. Raises UsageError."""
    if not text.strip():
        return None
    end = parse_time(text, zone(str(here)), now)
    if end <= now:
        raise UsageError(f"{end:%Y-%m-%dT%H:%M:%SZ} has passed; give a time in the future")
    return end
