"""Channels that no running agent has: `import` and `lint` say so, with what to type."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dcron.cli.commands import import_
from tests.support.cli import Dcron
from tests.support.stage import Stage

CRONTAB = b"MAILTO=ann@example.org\n@daily ./report\n"
ADVICE = (
    'give an agent the table [notify.mail] with kind = "mail" in its config file and restart it;'
    " `dcron channel list` shows all"
)


def test_an_import_says_that_no_agent_can_send_mail(dcron: Dcron) -> None:
    added = dcron.done("import", "--user", "root", "-", stdin=CRONTAB)
    mailed, missing = added.err.splitlines()[-2:]
    assert "what the commands below print is mailed to ann@example.org, as cron does" in mailed
    assert missing == (f"<stdin>: warning: no running agent can send to mailto:ann@example.org yet: {ADVICE}")
    (task,) = dcron.done("list", "--json").json
    assert (task["notify"], task["notify_on"]) == (["mailto:ann@example.org"], ["output"])


def test_an_import_without_mail_has_nothing_to_say(dcron: Dcron) -> None:
    added = dcron.done("import", "--no-mail", "--user", "root", "-", stdin=CRONTAB)
    assert "mail" not in added.err
    (task,) = dcron.done("list", "--json").json
    assert (task["notify"], task["notify_on"], task["env"]) == ([], [], {"MAILTO": "ann@example.org"})


def test_where_cron_mails_an_import_says_what_is_no_longer_mailed(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crontab = b'@daily ./report\nMAILTO=""\n@daily ./silent\n'
    assert "MAILTO" not in sqlite.done("import", "-n", "--user", "root", "-", stdin=crontab).err
    (tmp_path / "sendmail").touch()
    monkeypatch.setattr(import_, "SENDMAIL", str(tmp_path / "sendmail"))
    warned = sqlite.done("import", "-n", "--user", "root", "-", stdin=crontab).err
    assert "1 of the tasks have no MAILTO above them: cron mailed what they print" in warned
    silent = sqlite.done("import", "-n", "--no-mail", "--user", "root", "-", stdin=crontab).err
    assert "MAILTO" not in silent


def test_a_channel_that_no_agent_has_is_warned_of_where_it_is_given(dcron: Dcron) -> None:
    stage = Stage(dcron.url)
    stage.now = datetime.now(UTC)
    stage.node("web-1", channels=("ops",))
    stage.database.close()
    missing = "warning: no running agent can send to opps: give an agent the table [notify.opps]"
    assert "no-channel" not in dcron.done("add", "-n", "a", "--notify", "ops", "@daily", "true").err
    assert missing in dcron.done("add", "-n", "b", "--notify", "opps", "@daily", "true").err
    assert missing in dcron.done("set", "a", "--notify", "opps").err
    assert "no-channel" not in dcron.done("set", "a", "--timeout", "5m").err
    assert missing in dcron.done("config", "set", "notify.default", "opps").err
    assert missing in dcron.done("config", "set", "notify.fallback", "opps").err
    assert dcron.done("config", "set", "notify.default", "ops").err == ""


def test_lint_names_the_tasks_whose_channels_are_missing(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "--notify", "mailto:ann", "--notify", "ops", "10 3 * * *", "true")
    dcron.done("add", "-n", "plain", "--notify", "none", "11 3 * * *", "true")
    found = dcron("lint", "--json")
    assert found.code == 1
    assert [(each["task"], each["code"]) for each in found.json] == [("report", "no-channel")] * 2
    assert found.json[0]["message"] == f"no running agent can send to mailto:ann: {ADVICE}"
    assert "the table [notify.ops] in its config file" in found.json[1]["message"]
    stage = Stage(dcron.url)
    stage.now = datetime.now(UTC)
    stage.node("web-1", channels=("ops", "mailto"))
    stage.database.close()
    assert dcron.done("lint", "--json").json == []
