"""Each example of the help runs: in verbs, in the pages of `dcron help`, and on the first screen."""

import re
from pathlib import Path

import pytest

from dcron.cli.running.topics import TOPICS
from dcron.cli.running.verbs import first_screen
from tests.cli.test_help import COMMANDS, examples, words_of_dcron
from tests.support.cli import Dcron

STAYS = ("agent", "monitor", "demo", "tui")
"""Verbs that stay until they are stopped."""
OTHER_DATABASES = ("--db", "-c")
FAILS = {1: "refused, or there is something", 4: "no such run, node, change or batch as in the example"}
NAMES = ("backup", "report", "one", "other", "poll", "payroll", "shop-a")


def all_examples() -> list[str]:
    """Return those that end by themselves. In the pages they are indented."""
    pages = re.findall(r"^  .*", "\n".join([*TOPICS.values(), first_screen()]), re.MULTILINE)
    texts = [*(command.help or "" for command in COMMANDS.values()), "\n".join(pages)]
    found = [re.split(r" {3,}", example)[0] for text in texts for example in examples(text)]
    return [example for example in dict.fromkeys(found) if not is_left_out(words_of_dcron(example))]


def is_left_out(words: list[str]) -> bool:
    """Return whether an example waits for an agent, or needs another database."""
    waits = {"--wait", "--follow"} & set(words) or words[:2] == ["logs", "-f"]
    return not words or words[0] in STAYS or bool(waits) or any(each in words for each in OTHER_DATABASES)


@pytest.fixture
def prepared(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dcron:
    """A crontab with the tasks of the examples, and the files that they read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    (tmp_path / "cron").mkdir()
    for name in ("deploy", "sysstat", "crontab"):
        (tmp_path / name).write_text(f"#dcron: name={name[-4:]}\n0 3 * * * root true\n")
    (tmp_path / "cron" / "tasks.cron").write_text("#dcron: name=applied\n0 3 * * * true\n")
    (tmp_path / "order.json").write_text("{}")
    event = "BEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20300101\nEND:VEVENT\n"
    (tmp_path / "germany.ics").write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{event}END:VCALENDAR\n")
    sqlite.done("calendar", "add", "holidays", "2030-12-25")
    for name in NAMES:
        sqlite.done("add", "-n", name, "@daily", "true", "--label", "team=shop,tier=bronze")
    sqlite.done("set", "backup", "-e", "DEBUG=1")
    sqlite.done("dump", "dcron.json")
    return sqlite


@pytest.mark.slow
def test_every_example_of_the_help_runs(prepared: Dcron, tmp_path: Path) -> None:
    found = all_examples()
    assert len(found) > 120
    codes = {}
    for example in found:
        here = re.sub(r"/(?:var/spool/cron/crontabs|var/backups|etc/cron.d|etc)/", f"{tmp_path}/", example)
        here = here.replace("EDITOR=nano ", "")
        words = words_of_dcron(here)
        codes[example] = prepared(*words, stdin=b"0 4 * * * true\n").code
    assert {example: code for example, code in codes.items() if code not in (0, *FAILS)} == {}
    assert sum(code == 0 for code in codes.values()) > 90
