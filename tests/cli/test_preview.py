"""`preview`: the same instants as the agents', in a stable shape, without a database."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dcron.cli.app import main
from tests.support.cli import Dcron, on_terminal

OCCURRENCE = {"at", "local", "utc_offset", "offset", "note", "reason", "starts_at"}


@pytest.fixture
def nowhere(sqlite: Dcron) -> Dcron:
    """`dcron` whose database cannot be reached."""
    sqlite.url = "postgresql://nobody:secret@127.0.0.1:1/none"
    return sqlite


def test_the_shape_is_exactly_that_of_the_contract(nowhere: Dcron) -> None:
    shown = nowhere.done(
        "preview", "30 2 * * *", "-z", "Europe/Berlin", "--from", "2027-03-27", "-n", "3", "--json"
    )
    preview = shown.json
    assert list(preview) == [
        *("schedule", "timezone", "explanation", "occurrences", "warnings", "clock_changes")
    ]
    assert preview["clock_changes"][0] == {
        "at": "2027-10-31T01:00:00Z",
        "local": "2027-10-31T02:00:00+01:00",
        "text": "02:30 comes twice on 2027-10-31: only the first time runs",
    }
    assert (preview["schedule"], preview["timezone"]) == ("30 2 * * *", "Europe/Berlin")
    assert "02:30" in preview["explanation"]
    assert all(set(each) == OCCURRENCE for each in preview["occurrences"])
    usual, gap, after = preview["occurrences"]
    assert usual == {
        "at": "2027-03-27T01:30:00Z",
        "local": "2027-03-27T02:30:00+01:00",
        "utc_offset": "+01:00",
        "offset": "+01:00",
        "note": None,
        "reason": None,
        "starts_at": "2027-03-27T01:30:00Z",
    }
    assert (gap["at"], gap["local"]) == ("2027-03-28T01:00:00Z", "2027-03-28T03:00:00+02:00")
    assert "02:30" in gap["note"]
    assert (after["at"], after["note"]) == ("2027-03-29T00:30:00Z", None)


def test_a_person_reads_what_the_clock_change_does(nowhere: Dcron) -> None:
    shown = nowhere.done("preview", "30 2 * * *", "-z", "Europe/Berlin", "--from", "2027-03-27", "-n", "2")
    lines = shown.out.splitlines()
    assert "Sat 2027-03-27 02:30:00 CET +01:00    2027-03-27 01:30:00Z" in lines[-3]
    assert "Sun 2027-03-28 03:00:00 CEST +02:00   2027-03-28 01:00:00Z" in lines[-2]
    assert "does not exist" in lines[-1]
    assert "2027-03-28" not in shown.err
    assert "2027-10-31" in shown.err  # the change after that, far beyond the lines asked for


def test_an_occurrence_that_a_clock_change_drops_is_shown(nowhere: Dcron) -> None:
    words = ["-z", "Europe/Berlin", "--gap", "skip", "--from", "2027-03-20T12:00"]
    weekly = nowhere.done("preview", "30 2 * * 0", *words, "-n", "2")
    assert weekly.out.splitlines()[-1].strip() == "02:30 does not exist on 2027-03-28: no run"
    yearly = nowhere.done("preview", "30 2 28 3,5 *", *words, "-n", "1")
    assert "clock change Sun 2027-03-28: 02:30 does not exist on 2027-03-28: no run" in yearly.err
    same = nowhere.done("preview", "30 2 28 3,5 *", *words, "-n", "1", "--json").json
    assert same["clock_changes"][0]["at"] == "2027-03-28T01:00:00Z"


def test_a_schedule_that_begins_right_then_is_shown(nowhere: Dcron) -> None:
    shown = nowhere.done(
        "preview", "0 9 * * *", "-z", "UTC", "--from", "2027-01-01 09:00", "-n", "1", "--json"
    )
    assert shown.json["occurrences"][0]["at"] == "2027-01-01T09:00:00Z"


def test_warnings_have_codes(nowhere: Dcron) -> None:
    warnings = nowhere.done("preview", "*/7 * * * *", "--json").json["warnings"]
    assert [set(each) for each in warnings] == [{"code", "message"}]
    assert "[uneven-step]" in nowhere.done("preview", "*/7 * * * *").err


@pytest.mark.parametrize("schedule", ["H 9 * * *", "0~29 9 * * *", "@daily | 0 h/6 * * *"])
def test_times_that_depend_on_a_name_are_not_passed_off_as_a_tasks(dcron: Dcron, schedule: str) -> None:
    assert "H and ~ depend on the task's name" in dcron.done("preview", schedule).err
    codes = [each["code"] for each in dcron.done("preview", schedule, "--json").json["warnings"]]
    assert "no-name" in codes
    dcron.done("add", "-n", "named", schedule, "x")
    assert "name decides" not in dcron.done("preview", "named").err


def test_a_thursday_is_no_hash(nowhere: Dcron) -> None:
    assert nowhere.done("preview", "0 9 * mar thu", "--json").json["warnings"] == []


def test_until_bounds_a_window(nowhere: Dcron) -> None:
    words = ["--from", "2027-01-01", "--until", "2027-01-03", "-z", "UTC", "--json"]
    assert len(nowhere.done("preview", "0 */6 * * *", *words).json["occurrences"]) == 9
    assert len(nowhere.done("preview", "0 */6 * * *", *words, "-n", "2").json["occurrences"]) == 2
    assert nowhere("preview", "@daily", "--from", "2027-01-03", "--until", "2027-01-01").code == 2


def test_ten_occurrences_are_shown_if_nothing_is_said(nowhere: Dcron) -> None:
    assert len(nowhere.done("preview", "@every 90s", "--json").json["occurrences"]) == 10


def test_what_does_not_follow_the_clock_says_so(nowhere: Dcron) -> None:
    shown = nowhere.done("preview", "@reboot")
    assert "when a node starts" in shown.err
    assert nowhere.done("preview", "@reboot", "--json").json["occurrences"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["99 * * * *"], 2),
        (["@nightly"], 2),
        ([""], 2),
        (["a b"], 2),
        (["../etc"], 2),
        (["0 9 * * *", "-z", "Nowhere"], 2),
        (["0 9 * * *", "--from", "someday"], 2),
        (["0 9 * * *", "-n", "0"], 2),
        (["0 9 * * *", "--all"], 2),
        ([], 2),
        (["backup"], 3),
        (["--all"], 3),
    ],
)
def test_bad_previews(nowhere: Dcron, words: list[str], code: int) -> None:
    refused = nowhere("preview", *words)
    assert refused.code == code
    assert "secret" not in refused.err


def test_a_schedule_that_never_fires_has_a_warning(nowhere: Dcron) -> None:
    preview = nowhere.done("preview", "0 0 30 2 *", "--json").json
    assert preview["occurrences"] == []
    assert [each["code"] for each in preview["warnings"]] == ["never-fires"]


def test_a_task_is_previewed_as_its_agents_plan_it(dcron: Dcron) -> None:
    task = dcron.done("add", "-n", "hashed", "-z", "Asia/Tokyo", "--json", "H H * * *", "ls").json
    preview = dcron.done("preview", "hash", "--json").json
    assert (preview["schedule"], preview["timezone"]) == ("H H * * *", "Asia/Tokyo")
    assert preview["occurrences"][0]["at"] == task["next_run_at"]
    assert dcron.done("preview", "hashed", "-z", "UTC", "--json").json["timezone"] == "UTC"
    assert "neither a task nor a schedule" in dcron("preview", "nothing").err
    assert dcron("preview", "nothing").code == 4


def test_the_rules_of_a_task_count(dcron: Dcron) -> None:
    words = ["add", "-n", "careful", "-z", "Europe/Berlin", "--gap", "skip", "--not-before", "2036-03-29"]
    task = dcron.done(*words, "--json", "30 2 * * *", "ls").json
    assert task["next_run_at"] == "2036-03-29T01:30:00Z"
    found = dcron.done("preview", "careful", "--from", "2036-03-29", "-n", "2", "--json").json["occurrences"]
    assert [each["at"] for each in found] == ["2036-03-29T01:30:00Z", "2036-03-31T00:30:00Z"]
    assert "gap" in dcron.done("view", "careful").out
    task = dcron.done("set", "careful", "--clear", "gap", "--not-before", "none", "--json").json
    assert (task["gap"], task["not_before"]) == ("after", None)


def test_the_whole_crontab_is_merged_with_its_busiest_minutes(dcron: Dcron) -> None:
    for name, schedule in (
        ("a", "0 9 * * *"),
        ("b", "0 9 * * *"),
        ("c", "30 8 * * *"),
        ("idle", "1 9 * * *"),
    ):
        dcron.done("add", "-n", name, "-z", "UTC", schedule, "ls")
    dcron.done("pause", "idle")
    words = ["preview", "--all", "-z", "UTC", "--from", "2027-01-01", "--until", "2027-01-02"]
    shown = dcron.done(*words)
    assert [line.split()[-1] for line in shown.out.splitlines()] == ["NOTE", "c", "a", "b"]
    assert "(2)" in shown.err
    found = dcron.done(*words, "--json").json
    assert list(found) == ["schedule", "timezone", "explanation", "occurrences", "warnings"]
    assert [(each["task"], each["at"]) for each in found["occurrences"]] == [
        ("c", "2027-01-01T08:30:00Z"),
        ("a", "2027-01-01T09:00:00Z"),
        ("b", "2027-01-01T09:00:00Z"),
    ]


def test_the_documented_cases_are_what_preview_prints(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "data" / "dst_cases.jsonl"
    cases = [json.loads(line) for line in path.read_text().splitlines()][::10]
    for case in cases:
        start = datetime.fromisoformat(case["start"]).astimezone(UTC) + timedelta(seconds=1)
        words = ["preview", case["expr"], "-z", case["zone"], "--from", f"{start:%Y-%m-%dT%H:%M:%SZ}"]
        assert main([*words, "-n", str(case["n"]), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["occurrences"]
        assert [each["at"] for each in found] == case["expected"], case


def test_a_task_with_jitter_is_shown_as_it_starts(sqlite: Dcron) -> None:
    hour = f"{(datetime.now(UTC) + timedelta(hours=6)):%H}"  # the occurrence before it has started
    schedule = f"0 {hour} * * *"
    added = sqlite.done("add", "-n", "task-0", "-z", "UTC", "--jitter", "3h", schedule, "true")
    for number in range(1, 12):
        sqlite.done("add", "-n", f"task-{number}", "-z", "UTC", "--jitter", "3h", schedule, "true")
    planned = sqlite.done("view", "task-0", "--json").json["next_run_at"]
    first = sqlite.done("preview", "task-0", "-n", "2", "--json").json["occurrences"][0]
    assert (first["at"][10:], first["starts_at"]) == (f"T{hour}:00:00Z", planned)
    message = f"starts {planned[11:19]} by its jitter, in "
    for shown in (added, sqlite.done("view", "task-0"), sqlite.done("preview", "task-0")):
        (line,) = [line for line in shown.out.splitlines() if message in line]
        assert f" {hour}:00:00 UTC " in line
    together = sqlite.done("preview", "--all", "-z", "UTC", "-n", "12")
    (line,) = [line for line in together.out.splitlines() if " task-0 " in line]
    assert f" {planned[11:19]} UTC " in line
    assert f"{hour}:00:00, moved by jitter" in line
    starts = [
        each["starts_at"]
        for each in sqlite.done("preview", "--all", "-n", "12", "--json").json["occurrences"]
    ]
    assert starts == sorted(starts)
    assert "(12)" not in together.err
    assert sqlite.done("lint").out == ""


IN_GREY, IN_BOLD, IN_YELLOW = (rf"\x1b\[{code}m([^\x1b]*)\x1b\[0m" for code in (2, 1, 33))
BERLIN = ("-z", "Europe/Berlin")


@pytest.mark.terminal
def test_past_next_and_changed_times_have_colours_on_a_terminal(nowhere: Dcron) -> None:
    now = datetime.now(UTC)
    words = ["preview", "0 9 * * *", "-z", "UTC", "--from", f"{now - timedelta(days=2):%Y-%m-%d}", "-n", "5"]
    shown = on_terminal(*words, url=nowhere.url).out
    assert " ago" in re.findall(IN_GREY, shown)[0]
    (following,) = re.findall(IN_BOLD, shown)
    assert " in " in following
    gap = ["30 2 * * *", *BERLIN, "--from", "2027-03-28", "-n", "2"]
    changed = on_terminal("preview", *gap, url=nowhere.url)
    notes = [text.strip() for text in re.findall(IN_YELLOW, changed.out)]
    assert notes[0] == "02:30 does not exist on 2027-03-28: runs at 03:00, CEST"
    assert notes[1].startswith("clock change Sun 2027-10-31: 02:30 comes twice")
    assert not re.findall(IN_BOLD, changed.out), "the first one shown is not the next one"


@pytest.mark.terminal
def test_frozen_starts_have_a_colour_on_a_terminal(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "-z", "UTC", "@every 1h", "true")
    sqlite.done("freeze", "--until", "+150m", "--reason", "database upgrade")
    frozen = "skipped: frozen by .*: database upgrade"
    shown = on_terminal("preview", "backup", "-n", "2", url=sqlite.url, size=(24, 120)).out
    assert re.fullmatch(frozen, re.findall(IN_YELLOW, shown)[0].strip())
    table = on_terminal("preview", "--all", "-n", "2", url=sqlite.url, size=(24, 160)).out
    assert re.fullmatch(frozen, re.findall(IN_YELLOW, table)[0])


@pytest.mark.terminal
def test_without_colours_a_terminal_shows_the_same_text(nowhere: Dcron) -> None:
    words = ["preview", "30 2 * * *", *BERLIN, "--from", "2027-03-28", "-n", "2"]
    plain = on_terminal(*words, url=nowhere.url, NO_COLOR="1").out
    assert "\x1b" not in plain
    assert on_terminal(*words, url=nowhere.url, TERM="dumb").out == plain
    assert re.sub(r"\x1b\[\d+m", "", on_terminal(*words, url=nowhere.url).out) == plain
    piped = nowhere.done(*words)
    assert plain.replace("\r\n", "\n") == piped.out + piped.err
