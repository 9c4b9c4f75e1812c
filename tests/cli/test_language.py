"""The schedule language and the rules for clock changes on the real command line; hostile schedules."""

import re
import time

import pytest

from dcron.database import open_database
from dcron.model import Definition
from dcron.services.crontab import Crontab
from tests.support.cli import Dcron, on_terminal

FORMS = [
    "30 2 * * mon-fri",
    "*/10 30 2 * * *",
    "0 9 L * *",
    "0 9 15W,LW * *",
    "0 9 * * 5L",
    "0 9 * * 1#2",
    "H H(0-5) * * *",
    "0~59 3 * * *",
    "RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0",
    "DTSTART:20270101T090000 RRULE:FREQ=DAILY;INTERVAL=3",
    "0 9 * * mon | 30 17 * * fri",
    "0 9 * * * | RRULE:FREQ=DAILY;BYHOUR=12",
    "@every 90s",
    "@at 2060-01-01T09:00",
    "@monthly",
    "@reboot",
]
EXACT_KEYS = ("name", "schedule", "timezone", "gap", "fold", "not_before", "not_after", "next_run_at")


@pytest.mark.slow
def test_every_form_means_the_same_in_add_list_preview_export_and_import(dcron: Dcron, sqlite: Dcron) -> None:
    words = ("-z", "Europe/Berlin", "--not-before", "2027-01-01T00:00Z", "--fold", "both")
    tasks = []
    for number, schedule in enumerate(FORMS):
        task = dcron.done("add", "-n", f"t{number:02}", *words, "--json", schedule, "ls").json
        assert task["schedule"] == schedule
        tasks.append(task)
    listed = dcron.done("list", "--json").json
    assert [[each[key] for key in EXACT_KEYS] for each in listed] == [
        [each[key] for key in EXACT_KEYS] for each in tasks
    ]
    for task in tasks:
        found = dcron.done("preview", task["name"], "-n", "1", "--json").json["occurrences"]
        runs = [each["at"] for each in found if each["reason"] is None]
        assert runs == ([task["next_run_at"]] if task["next_run_at"] else []), task["schedule"]
    text = dcron.done("export").out
    assert dcron.done("import", "-", stdin=text.encode()).out == "0 added, 0 changed, 16 unchanged\n"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("@after a,b", "after a and b have succeeded"),
        ("@on deploy", "when the event deploy is sent"),
        ("@delay 5m", "5 minutes after the run before has ended"),
    ],
)
def test_what_follows_no_clock_is_explained_and_added(sqlite: Dcron, schedule: str, message: str) -> None:
    for name in ("a", "b"):
        sqlite.done("add", "-n", name, "@yearly", "true")
    shown = sqlite.done("preview", schedule)
    assert message in shown.out
    assert f"it runs {message}" in shown.err
    assert message in sqlite.done("add", "-n", "one", schedule, "ls").out
    assert sqlite.done("view", "one", "--json").json["schedule"] == schedule
    refused = sqlite("add", f"{schedule} | @daily", "ls")
    assert (refused.code, "cannot be combined" in refused.err) == (2, True)


def test_an_expression_is_previewed_with_rules_and_without_a_database(sqlite: Dcron) -> None:
    sqlite.url = "postgresql://nobody@127.0.0.1:1/none"

    def found(*words: str) -> list[tuple[str, str | None]]:
        shown = sqlite.done("preview", "30 2 * * *", "-z", "Europe/Berlin", *words, "--json").json
        return [(each["at"], each["reason"]) for each in shown["occurrences"]]

    assert found("--from", "2027-03-28", "-n", "1", "--gap", "skip") == [("2027-03-29T00:30:00Z", None)]
    both = found("--from", "2027-10-31", "-n", "2", "--fold", "both")
    assert both == [("2027-10-31T00:30:00Z", None), ("2027-10-31T01:30:00Z", None)]
    window = ("--not-before", "2027-01-02", "--not-after", "2027-01-03T02:30")
    assert found("--from", "2027-01-01", *window) == [
        ("2027-01-01T01:30:00Z", "before --not-before"),
        ("2027-01-02T01:30:00Z", None),
        ("2027-01-03T01:30:00Z", None),
        ("2027-01-04T01:30:00Z", "after --not-after"),
    ]
    refused = sqlite("preview", "@daily", "--not-before", "2027-02-01", "--not-after", "2027-01-01")
    assert (refused.code, "not-after" in refused.err) == (2, True)
    assert sqlite("preview", "@daily", "--gap", "maybe").code == 2
    assert sqlite("preview", "--all", "--gap", "skip").code == 2


@pytest.mark.slow
def test_a_window_that_leaves_nothing_is_refused_with_its_cause(sqlite: Dcron) -> None:
    refused = sqlite(
        "add", "--not-before", "2027-01-02T10:00", "--not-after", "2027-01-03T08:00", "0 9 * * *", "x"
    )
    assert (refused.code, "never fires" in refused.err, "window" in refused.err) == (2, True, True)
    sqlite.done("add", "-n", "one", "-z", "Asia/Tokyo", "0 9 * * *", "x")
    task = sqlite.done(
        "set", "one", "--not-before", "2060-01-01", "--not-after", "2061-01-01T00:00Z", "--json"
    ).json
    assert (task["not_before"], task["not_after"]) == ("2059-12-31T15:00:00Z", "2061-01-01T00:00:00Z")
    assert task["next_run_at"] == "2060-01-01T00:00:00Z"
    view = sqlite.done("view", "one").out
    assert "skipped: before --not-before" in view
    for option in ("--not-after", "--not-before"):
        assert sqlite("set", "one", option, "someday").code == 2
    assert sqlite("set", "one", "--not-after", "2001-01-01").code == 2
    task = sqlite.done("set", "one", "--clear", "not-before", "--clear", "not-after", "--json").json
    assert (task["not_before"], task["not_after"]) == (None, None)


def test_the_preview_of_a_paused_task_says_so(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "x")
    sqlite.done("pause", "one", "--reason", "disk is full", "--until", "2060-01-01")
    shown = sqlite.done("preview", "one", "-n", "1")
    assert re.search(
        r"one is paused by .* until .*2060-01-01 .*: disk is full; until then it does not run", shown.err
    )
    assert [each["code"] for each in sqlite.done("preview", "one", "--json").json["warnings"]] == ["paused"]
    sqlite.done("resume", "one")
    sqlite.done("pause", "one")
    assert "; until `dcron resume` it does not run" in sqlite.done("preview", "one", "-n", "1").err


def test_what_is_skipped_does_not_make_a_minute_busy(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "friday", "fri")
    for name in ("a", "b"):
        sqlite.done("add", "-n", name, "-z", "UTC", "--except", "friday", "0 9 * * *", "x")
        sqlite.done("add", "-n", f"{name}2", "-z", "UTC", "0 10 * * *", "x")
    words = ("preview", "--all", "-z", "UTC", "--from", "2027-01-01", "--until", "2027-01-02")
    busiest = sqlite.done(*words).err
    assert "10:00 (2)" in busiest or "2027-01-01 (2)" in busiest
    assert busiest.count("(2)") == 1
    first = sqlite.done("preview", "--all", "-z", "UTC", "--from", "2027-01-01", "-n", "1", "--json").json
    assert [(each["task"], each["reason"] is None) for each in first["occurrences"]] == [
        ("a", False),
        ("b", False),
        ("a2", True),
    ]


@pytest.mark.terminal
def test_a_look_ahead_is_whole_and_a_terminal_gets_the_same(sqlite: Dcron) -> None:
    lines = [
        Definition(name=f"t{number:02}", schedule="*/5 * * * *", timezone="UTC", command="ls")
        for number in range(60)
    ]
    database = open_database(sqlite.url)
    Crontab(database, "tester").import_tasks(lines)
    database.close()
    words = ["preview", "--all", "--from", "2027-01-01", "--until", "2027-01-01T00:59", "-z", "UTC", "--json"]
    listed = sqlite.done(*words)
    assert len(listed.json["occurrences"]) == 60 * 12
    assert [each["at"] for each in listed.json["occurrences"][::60]] == [
        f"2027-01-01T00:{minute:02}:00Z" for minute in range(0, 60, 5)
    ]
    assert listed.err == ""
    assert on_terminal(*words, url=sqlite.url).out == listed.out
    cut = sqlite.done(*words, "-n", "7")
    assert len(cut.json["occurrences"]) == 7
    assert "more than 7 starts" in cut.err


def test_progress_is_shown_after_a_second_and_wiped_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from dcron.cli.output import progress

    written: list[str] = []
    clock = iter(range(100))
    monkeypatch.setattr("dcron.cli.output.progress.sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("dcron.cli.output.progress.sys.stderr.write", written.append, raising=False)
    monkeypatch.setattr("dcron.cli.output.progress.time.monotonic", lambda: next(clock))
    assert list(progress.watched("abc", "counting", 3)) == ["a", "b", "c"]
    assert written == ["\rcounting: 2 of 3\033[K", "\rcounting: 3 of 3\033[K", "\r\033[K"]
    written.clear()
    clock = iter([0] * 100)
    assert list(progress.watched("abc", "counting")) == ["a", "b", "c"]
    assert written == []


HOSTILE = [
    "*" * 100_000,
    "0 9 " + "1," * 50_000 + "1 * *",
    "@at " + "9" * 100_000,
    "RRULE:" + "A" * 100_000,
    "x" * 100_000,
    "٣ ٩ * * *",
    "0 ９ * * *",
    "0 9 * * * \x1b]52;c;AAAA\x07",
    "0 9 * *\u202e *",
    "\udcff * * * *",
    "@at 9999-12-31T23:59:59Z",
    "@every 999999999999999999999w",
    "DTSTART:99991231T235959 RRULE:FREQ=DAILY",
    "0 0 30 2 *\n",
]


@pytest.mark.parametrize("schedule", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_schedules_cost_nothing_and_are_never_printed_raw(sqlite: Dcron, schedule: str) -> None:
    for words in (["preview", "bad bad"], ["add", "bad bad", "ls"]):
        sqlite(*words)  # what is loaded once
    for words in (["preview", schedule], ["add", schedule, "ls"]):
        begun = time.process_time()
        refused = sqlite(*words)
        assert time.process_time() - begun < 5, words[0]
        assert refused.code == 2, refused.err[:200]
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", refused.err + refused.out)
        assert len(refused.err) < 3000


@pytest.mark.parametrize(
    "words",
    [
        ["-z", "../../etc/passwd"],
        ["-z", "/etc/passwd"],
        ["-z", "posix/Europe/Berlin"],
        ["-z", "localtime"],
        ["-z", "Europe/Berlin\x00"],
        ["-z", "A/" * 50_000],
        ["-z", "\x1b[2J"],
        ["-z", ""],
        ["--not-before", "9999-12-31T23:59"],
        ["--not-after", "9" * 100_000],
        ["--not-before", "+" + "9" * 40 + "w"],
        ["--not-before", "٢٠٢٧-٠١-٠١"],
    ],
)
def test_hostile_options_are_refused_at_once(sqlite: Dcron, words: list[str]) -> None:
    for verb in (["add", *words, "@daily", "ls"], ["preview", *words, "@daily"]):
        begun = time.process_time()
        refused = sqlite(*verb)
        assert time.process_time() - begun < 5
        assert refused.code == 2, (verb[0], refused)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", refused.err)
        assert len(refused.err) < 3000
    assert sqlite.done("list", "--json").json == []


def test_nothing_is_looked_up_for_a_time_beyond_the_calendar(sqlite: Dcron) -> None:
    for end in ("--from", "--until"):
        assert sqlite("preview", "@daily", end, "9999-12-31").code == 2
    assert (
        sqlite.done("preview", "@daily", "-z", "UTC", "--from", "9990-01-01", "-n", "1", "--json").code == 0
    )
