"""What opens a form, a text or a question: from the keys of the tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dcron.model import Definition, Task
from dcron.services.crontab import Crontab
from dcron.tui.acting import Act
from dcron.tui.actions import on_task
from dcron.tui.forms.dialogs import Fill, Question
from dcron.tui.forms.fields import text_or_file
from dcron.tui.forms.screen import TaskForm
from dcron.tui.forms.text import TextEdit
from dcron.validation import require_text

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp


def new_task(app: "DcronApp") -> None:
    """Write a new task."""
    if app.may_act([app]):
        line = Definition(name="", schedule="", timezone=app.new_task_zone, command="")
        app.push_screen(TaskForm(line, is_new=True))


def edit_task(app: "DcronApp", task: Task | None) -> None:
    """Change a task in a form, as it stands now."""
    if app.may_act([task] if task else []):
        assert task
        app.fetch(lambda board: board.crontab.get(task.name), lambda now: _show(app, now))


def edit_as_text(app: "DcronApp", tasks: Sequence[Task]) -> None:
    """Change tasks as text in the person's editor."""
    if app.may_act(tasks):
        TextEdit(app, [task.name for task in tasks]).begin()


def run_with_payload(app: "DcronApp", task: Task | None) -> None:
    """Run a task now, with something for its command to read."""
    if not app.may_act([task] if task else []):
        return
    assert task
    hint = "TEXT, or @FILE: its stdin and $DCRON_PAYLOAD"
    question = Question("payload", hint, lambda text: _payload(text))

    def go(texts: list[str] | None) -> None:
        if texts is not None:
            app.act([_run(task, texts[0])])

    app.push_screen(Fill(f"run {task.name} now with a payload", [question]), go)


def _show(app: "DcronApp", task: Task) -> None:
    app.push_screen(TaskForm(task))


def _payload(text: str) -> str:
    payload = text_or_file(text, "payload")
    require_text("payload", payload)
    return payload


def _run(task: Task, text: str) -> Act:
    def do(crontab: Crontab, line: Task) -> str:
        return f"run {crontab.run(line, _payload(text)).id} of {line.name} is due"

    return on_task(task, "run", ["--payload", text], do)
