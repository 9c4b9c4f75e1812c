"""The command that the form shows does what the form does."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dcron.cli.app import app
from dcron.model import Definition
from dcron.tui.forms.equivalent import add_line, set_line
from dcron.values.safe_text import safe_characters
from tests.support.tui import Stage

PLAIN = Definition(name="backup", schedule="@daily", timezone="Europe/Berlin", command="run it")
FULL = replace(
    PLAIN,
    schedule="30 2 * * *",
    env={"LEVEL": "9", "NAME": "two words"},
    need={"gpu": 1.0},
    limit={"mem": 2 << 30},
    require=("ssd", "zone=eu-1"),
    every_node=True,
    timeout=5400.0,
    max_running=None,
    tries=3,
    backoff_factor=1.5,
    on_lost="retry",
    stdin="@home",
    describe="-- as it is",
)


def execute(url: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCRON_DB", url)
    result = CliRunner().invoke(app, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("line", [PLAIN, FULL, replace(PLAIN, command="ls -l", argv=("ls", "-l"))])
def test_add_writes_the_command(tmp_path: Path, line: Definition, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/dcron.db")
    execute(stage.url, add_line(line), monkeypatch)
    assert stage.crontab.get("backup").definition() == line
    stage.database.close()


@pytest.mark.parametrize(("before", "after"), [(PLAIN, FULL), (FULL, PLAIN)])
def test_set_makes_one_of_the_other(
    tmp_path: Path, before: Definition, after: Definition, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/dcron.db")
    stage.crontab.add(before)
    execute(stage.url, set_line(before, after), monkeypatch)
    assert stage.crontab.get("backup").definition() == after
    stage.database.close()


def test_an_editor_s_text_keeps_its_length() -> None:
    text = "a\x1b[31m\t\n\x9b\u202e\u200b\ufe0fe\u0301\u0301\u0301\u0301\udc80 ok"
    drawn = safe_characters(text)
    assert len(drawn) == len(text)
    assert not set(drawn) & set("\x1b\t\n\x9b\u202e\u200b\ufe0f\udc80")
    assert drawn.endswith(" ok")
