"""Say what changed before an alert began: the task, or what its runs need."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.model import node_name
from dcron.policy.alert_facts import AlertFacts, Origin
from dcron.policy.history import RecordedChange
from dcron.presentation import differences, humanize
from dcron.values.unreadable import UnreadableTime


@dataclass(frozen=True)
class Blame:
    """What changed before an alert began: the task, or what its runs need."""

    at: datetime | None
    """When it changed; None where only the result is known."""
    text: str
    """A sentence without a full stop, such as `began 14m 2s after a change by anna@ops`."""
    difference: Sequence[str] = ()
    """What changed about the task: lines that begin with `-` and `+`."""
    change_id: int | None = None
    """The change, for `dcron undo --change`; None where nothing can be undone."""

    @property
    def sentence(self) -> str:
        """Return all of it on one line."""
        return f"{self.text}: {' '.join(self.difference)}" if self.difference else self.text


def of(facts: AlertFacts) -> Blame | None:
    """Return the change of the task before its first bad run, else what is new about that run."""
    alert, change, first_bad, success = facts.alert, facts.change, facts.first_bad, facts.success
    run = first_bad.run if first_bad else None
    began = (run.started_at or min(run.due_at, alert.opened_at)) if run else alert.opened_at
    succeeded = success.run.started_at if success else None
    if succeeded and succeeded >= began:
        return None  # it succeeds while the alert is open: a task that is too short, for example
    if change and not isinstance(change.at, UnreadableTime) and change.at <= began:
        has_worked_since = succeeded and succeeded >= change.at
        if not has_worked_since and (found := _after_change(change, began)):
            return found
    return _news(first_bad, success) if first_bad and success else None


def _after_change(change: RecordedChange, began: datetime) -> Blame | None:
    after = humanize.span((began - change.at).total_seconds())
    if change.action == "add":
        return Blame(change.at, f"began {after} after it was added by {change.author}")
    if not (isinstance(change.before, dict) and isinstance(change.after, dict)):
        return None
    note = f" ({change.note})" if change.note else ""
    text = f"began {after} after a change by {change.author}{note}"
    return Blame(change.at, text, differences.of_fields(change.before, change.after), change.id)


def _news(now: Origin, then: Origin) -> Blame | None:
    """Return what is new about a run since the last success: release, time zones or node."""
    if now.run.owner is None or then.run.owner is None:
        return None
    where, before = node_name(now.run.owner), node_name(then.run.owner)
    if now.version and then.version and now.version != then.version:
        release = f"began with release {now.version} of dcron on {where}"
        return Blame(now.began_at, f"{release}; the last success had {then.version}")
    if now.tzdata and then.tzdata and now.tzdata != then.tzdata:
        return Blame(None, f"began with time zones {now.tzdata}; the last success had {then.tzdata}")
    if where == before:
        return None
    if now.began_at and then.run.finished_at and now.began_at > then.run.finished_at:
        return Blame(now.began_at, f"began on {where}, which is new since the last success on {before}")
    return Blame(None, f"began on {where}; the last success was on {before}")
