"""Imports from several sources into one crontab."""

from dataclasses import replace

import pytest

from dcron.errors import Refused
from dcron.model import Definition
from dcron.services.changes.imported import Imported, NotAgreed
from tests.support.stage import Stage, definition

WEB_1, WEB_2 = "import:web-1:ann:/srv/crontab", "import:web-2:ann:/srv/crontab"
NONE = Imported((), (), ())


def mine(name: str = "backup", command: str = "true") -> Definition:
    return replace(definition(name), command=command, user="ann")


def said(stage: Stage) -> dict[str, tuple[str, str | None]]:
    """By name, what a task runs and where it comes from."""
    return {task.name: (task.command, task.source) for task in stage.crontab.tasks()}


def test_a_second_server_never_changes_the_tasks_of_the_first(stage: Stage) -> None:
    stage.crontab.import_tasks([mine(command="one")], WEB_1)
    second = stage.crontab.import_tasks([mine(command="two")], WEB_2, agreed=NONE)
    assert (second.added, second.renamed) == (["backup-2"], {"backup": "backup-2"})
    assert said(stage) == {"backup": ("one", WEB_1), "backup-2": ("two", WEB_2)}
    again = stage.crontab.import_tasks([mine(command="two")], WEB_2, agreed=NONE)
    assert (again.added, again.changed, again.unchanged) == ([], [], ["backup-2"])


def test_a_typed_task_is_another_source(stage: Stage) -> None:
    stage.crontab.add(mine(command="typed"))
    assert stage.crontab.import_tasks([mine()], WEB_1, agreed=NONE).added == ["backup-2"]
    assert said(stage) == {"backup": ("typed", None), "backup-2": ("true", WEB_1)}


def test_a_change_is_made_only_as_it_was_agreed(stage: Stage) -> None:
    stage.crontab.import_tasks([mine(command="one")], WEB_1)
    with pytest.raises(NotAgreed) as refused:
        stage.crontab.import_tasks([mine(command="two"), mine("new")], WEB_1, agreed=NONE)
    assert said(stage) == {"backup": ("one", WEB_1)}
    agreed = refused.value.imported
    stage.crontab.edit(stage.crontab.get("backup"), {"command": "meanwhile"})
    with pytest.raises(NotAgreed):
        stage.crontab.import_tasks([mine(command="two")], WEB_1, agreed=agreed)
    agreed = stage.crontab.import_tasks([mine(command="two")], WEB_1, dry_run=True)
    stage.crontab.import_tasks([mine(command="two")], WEB_1, agreed=agreed)
    assert said(stage) == {"backup": ("two", WEB_1)}


def test_a_file_may_adopt_tasks(stage: Stage) -> None:
    stage.crontab.add(mine(command="typed"))
    stage.crontab.add(mine("same"))
    version = stage.crontab.get("same").version
    done = stage.crontab.import_tasks([mine(), mine("same")], WEB_1, adopt=True)
    assert (done.changed, done.unchanged) == (["backup"], ["same"])
    assert said(stage) == {"backup": ("true", WEB_1), "same": ("true", WEB_1)}
    assert stage.crontab.get("same").version == version


def test_an_open_account_is_refused_where_it_would_be_root(stage: Stage) -> None:
    lines = [replace(definition("open"), command="another"), mine()]
    with pytest.raises(Refused, match=r"1 of the tasks names no account \(open\), and root imports them"):
        stage.crontab.import_tasks(lines, WEB_1, by_root=True)
    stage.crontab.import_tasks([definition("before")], WEB_1)  # no agent is there that could be root
    stage.node("web-1", account="root", any_account=True)
    with pytest.raises(Refused, match="the agent of web-1 may run as root"):
        stage.crontab.import_tasks(lines, WEB_1)
    assert set(said(stage)) == {"before"}
    stage.crontab.import_tasks(
        [definition("before"), mine()], WEB_1
    )  # what does not change leaves nothing open
    assert set(said(stage)) == {"before", "backup"}
