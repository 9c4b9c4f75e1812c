"""A pause: why, and until when."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcron.errors import UsageError
from dcron.model import Task
from dcron.presentation.humanize import plural
from dcron.schedule import parse_time, zone
from dcron.services.crontab import Crontab
from dcron.tui.acting import Act
from dcron.tui.actions import on_task
from dcron.tui.forms.dialogs import Fill, Question
from dcron.validation import require_text

if TYPE_CHECKING:
    from datetime import datetime

    from dcron.tui.app import DcronApp


def ask_to_pause(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Ask why and until when, and pause the tasks; both may be left open."""

    def check_end(text: str) -> None:
        for task in tasks:
            _end(text, task, app.health.now())

    def go(texts: list[str] | None) -> None:
        if texts is not None:
            app.act([_pause(task, *(text.strip() for text in texts)) for task in tasks])

    what = tasks[0].name if len(tasks) == 1 else plural(len(tasks), "task")
    questions = [
        Question("reason", "for the others; may be empty", lambda text: require_text("reason", text)),
        Question("until", "tomorrow 09:00, +2h; empty: until it is resumed", check_end),
    ]
    app.push_screen(Fill(f"pause {what}: why?", questions), go)


def _end(text: str, task: Task, now: "datetime") -> "datetime | None":
    """When the pause ends, on the clock of the task. Raises UsageError."""
    if not text.strip():
        return None
    end = parse_time(text, zone(task.timezone), now)
    if end <= now:
        raise UsageError(f"{end:%Y-%m-%dT%H:%M:%SZ} has passed; give a time to come")
    return end


def _pause(task: Task, reason: str, until: str) -> Act:
    def do(crontab: Crontab, line: Task) -> str:
        crontab.pause(line, reason or None, _end(until, line, crontab.now()))
        return f"paused {line.name}"

    words = [*(["--until", until] if until else []), *(["--reason", reason] if reason else [])]
    return on_task(task, "pause", words, do)
