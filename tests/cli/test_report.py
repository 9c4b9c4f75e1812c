"""`report`."""

from datetime import UTC, datetime, timedelta

import pytest

from dcron.database import open_database
from dcron.services.crontab import Crontab
from tests.support.cli import Dcron
from tests.support.statistics import ended_run, insert_runs


@pytest.fixture
def history(dcron: Dcron) -> Dcron:
    """A task that fails and one that was skipped, an hour ago."""
    dcron.done("add", "-n", "backup_all", "@yearly", "true")
    dcron.done("add", "-n", "mail", "@yearly", "true")
    database = open_database(dcron.url)
    ids = {task.name: task.id for task in Crontab(database, "ann@desk").tasks()}
    at = datetime.now(UTC) - timedelta(hours=1)
    for name, state, values in (
        ("backup_all", "failed", {"exit_code": 3, "dead_at": at}),
        ("mail", "skipped", {"skip_code": "overlap"}),
    ):
        insert_runs(database, [ended_run(at, state, task_id=ids[name], task=name, **values)])
    database.close()
    return dcron


def test_text_has_a_section_for_all_that_happened(history: Dcron) -> None:
    lines = history.done("report", "--since", "2h").out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles[0].startswith("dcron report, 2")
    assert titles[1:] == ["1 task still failing", "1 occurrence skipped", "1 new dead letter", "2 changes"]
    assert lines[1:3] == ["  1 run: 0 succeeded, 1 failed, 0 lost, 0 cancelled, 1 skipped", "  0.0% ok"]
    assert "  backup_all: 1 failure, the last " in "\n".join(lines)
    assert any(line.endswith("on web-1: exit 3 (run 3)") for line in lines)
    assert any(line.startswith("  1 overlap in 1 task, ") and line.endswith(": mail 1") for line in lines)


def test_a_task_that_was_removed_has_not_recovered(history: Dcron) -> None:
    history.done("rm", "backup_all", "-f")
    shown = history.done("report", "--since", "2h").out
    assert "recovered" not in shown
    assert "\n1 task failed, now removed\n  backup_all (removed): 1 failure" in shown


def test_other_formats_are_refused(history: Dcron) -> None:
    refused = history("report", "--format", "markdown")
    assert (refused.code, refused.err) == (2, "dcron: --format 'markdown': give text, json\n")


def test_json_has_all_of_it(history: Dcron) -> None:
    found = history.done("report", "--format", "json").json
    assert (found["failed"], found["skipped"], found["before"]["runs"]) == (1, 1, 0)
    (failed,) = found["failures"]
    assert (failed["task"], failed["still_fails"], failed["last_run"]["exit_code"]) == ("backup_all", True, 3)
    assert found["new_dead_letters"] == {"backup_all": 1}
    (group,) = found["skipped_by_code"]
    assert (group["code"], group["occurrences"], group["tasks"]) == ("overlap", 1, {"mail": 1})
    assert [change["action"] for change in found["changes"]] == ["add", "add"]


def test_nothing_happened_and_wrong_words(dcron: Dcron) -> None:
    lines = dcron.done("report").out.splitlines()
    assert lines[1:] == ["  0 runs: 0 succeeded, 0 failed, 0 lost, 0 cancelled, 0 skipped"]
    for words in (("--format", "html"), ("--since", "moon"), ("--since", "2999-01-01")):
        assert dcron("report", *words).code == 2, words


def test_yesterday_is_a_past_time(dcron: Dcron) -> None:
    midnight = dcron.done("report", "--format", "json").json["from"]
    assert dcron.done("report", "--since", "yesterday 00:00", "--format", "json").json["from"] == midnight
    assert dcron("report", "--since", "yesterday 25:00").code == 2
