"""`calendar`, and the options of tasks that name one."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from dcron.database import open_database
from tests.support.cli import Dcron, on_terminal, real

FROM = ("--from", "2027-01-01", "-z", "UTC")
ICS = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:test
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20270105
DTEND;VALUE=DATE:20270107
SUMMARY:two days
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;VALUE=DATE:20270101
RRULE:FREQ=MONTHLY;BYMONTHDAY=-1
SUMMARY:month end
END:VEVENT
END:VCALENDAR
"""


def occurrences(answer: Any) -> list[tuple[str, str | None]]:
    """The dates of a preview, and why each is skipped."""
    return [(each["at"][:10], each["reason"]) for each in answer.json["occurrences"]]


@pytest.mark.slow
def test_a_calendar_from_its_making_to_its_end(dcron: Dcron) -> None:
    added = dcron.done(
        "calendar", "add", "free", "2027-01-02", "01-03", "mon", "RRULE:FREQ=YEARLY;BYYEARDAY=9"
    )
    assert added.out == "added  free: 1 date, 1 yearly, mon, 1 rule\n"
    task = dcron.done("add", "-n", "job", "-z", "UTC", "--except", "free", "--json", "0 9 * * *", "x").json
    assert (task["except"], task["only"]) == ("free", None)
    on = "on calendar free"
    expected = [("2027-01-01", None), ("2027-01-02", on), ("2027-01-03", on), ("2027-01-04", on)]
    expected += [(f"2027-01-0{day}", None) for day in range(5, 9)] + [
        ("2027-01-09", on),
        ("2027-01-10", None),
    ]
    assert occurrences(dcron.done("preview", "job", *FROM, "-n", "6", "--json")) == expected
    listed = dcron.done("calendar", "list", "--json").json
    assert [(each["name"], each["dates"], each["annual"], each["weekdays"]) for each in listed] == [
        ("free", ["2027-01-02"], ["01-03"], ["mon"])
    ]
    assert re.search(
        r"^free +1 date, 1 yearly, mon, 1 rule +Mon 20\d\d-.* +job ",
        dcron.done("calendar", "list").out,
        re.MULTILINE,
    )
    viewed = dcron.done("calendar", "view", "free", "--json").json
    assert (viewed["tasks"], len(viewed["next_dates"])) == (["job"], 10)
    assert viewed["next_dates"] == sorted(viewed["next_dates"])
    shown = dcron.done("calendar", "view", "free").out
    assert "RRULE:FREQ=YEARLY;BYYEARDAY=9" in shown
    assert "job" in shown

    refused = dcron("calendar", "rm", "free", "--force")
    assert (refused.code, "used by job" in refused.err) == (1, True)
    refused = dcron("calendar", "add", "free", "sun")
    assert (refused.code, "add -y" in refused.err) == (1, True)
    assert dcron.done("calendar", "view", "free", "--json").json["weekdays"] == ["mon"]
    assert dcron.done("calendar", "add", "free", "sun", "-f").out == "replaced  free: sun\n"
    assert occurrences(dcron.done("preview", "job", *FROM, "-n", "3", "--json"))[2] == ("2027-01-03", on)
    assert dcron.done("set", "job", "--clear", "except", "--json").json["except"] is None
    assert dcron.done("calendar", "add", "free", "sat", "--json").json["weekdays"] == ["sat"]
    assert dcron("calendar", "rm", "free").code == 1
    assert dcron.done("calendar", "rm", "free", "-f").out == "removed  free\n"
    for words in (["rm", "free", "-f"], ["view", "free"]):
        assert dcron("calendar", *words).code == 4, words
    assert dcron.done("calendar", "list", "--json").json == []


def test_a_task_keeps_to_the_dates_of_its_calendar(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "leap", "02-29")
    task = sqlite.done("add", "-n", "rare", "-z", "UTC", "--only", "leap", "--json", "0 9 * * *", "x").json
    assert re.fullmatch(r"20\d\d-02-29T09:00:00Z", task["next_run_at"])
    view = sqlite.done("view", "rare").out
    assert re.search(r"only +on the dates of calendar leap$", view, re.MULTILINE)
    assert view.count("skipped: not on calendar leap") == 3 * 2  # and not three hundred lines
    assert "and so on" in view
    assert "-02-29 09:00:00" in view
    assert sqlite.done("set", "rare", "--only", "none", "--json").json["only"] is None


def test_a_calendar_that_is_not_there_or_leaves_nothing_is_refused(dcron: Dcron) -> None:
    dcron.done("calendar", "add", "past", "2020-01-01")
    for words, message, code in (
        (["--only", "past"], "never fires.*calendar past", 2),
        (["--except", "nowhere"], "no calendar 'nowhere'", 4),
        (["--only", "\x1b[31m"], "control character", 2),
    ):
        refused = dcron("add", *words, "@yearly", "x")
        assert refused.code == code, words
        assert re.search(message, refused.err)
        assert "\x1b" not in refused.err
    dcron.done("add", "-n", "one", "@daily", "x")
    assert dcron("set", "one", "--only", "nowhere").code == 4
    assert dcron("preview", "@daily", "--except", "nowhere").code == 4
    assert dcron.done("list", "--names").out == "one\n"


def test_a_task_whose_calendar_is_over_can_still_be_paused(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "soon", "01-01")
    sqlite.done("add", "-n", "one", "--only", "soon", "@yearly", "x")
    sqlite.done("calendar", "add", "-f", "soon", "2020-01-01")
    assert sqlite.done("pause", "one", "--json").json["enabled"] is False
    assert sqlite.done("resume", "one", "--json").json["next_run_at"] is None


def test_an_expression_is_previewed_with_a_calendar(dcron: Dcron) -> None:
    dcron.done("calendar", "add", "weekend", "sat", "sun")
    words = ["preview", "0 9 * * *", *FROM, "-n", "2"]
    found = occurrences(dcron.done(*words, "--except", "weekend", "--json"))
    on = "on calendar weekend"
    assert found == [("2027-01-01", None), ("2027-01-02", on), ("2027-01-03", on), ("2027-01-04", None)]
    assert "skipped: not on calendar weekend" in dcron.done(*words, "--only", "weekend").out


@pytest.mark.terminal
def test_what_is_skipped_is_struck_through_in_colour_alone(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "weekend", "sat", "sun")
    sqlite.done("add", "-n", "one", "-z", "UTC", "--except", "weekend", "0 9 * * *", "x")
    struck = "\x1b[9mSat 2027-01-02 09:00:00 UTC"
    shown = on_terminal("preview", "one", *FROM, "-n", "2", url=sqlite.url).out
    assert struck in shown
    assert "skipped: on calendar weekend" in shown
    everything = ["preview", "--all", "--until", "2027-01-03", *FROM]
    assert struck in on_terminal(*everything, url=sqlite.url, size=(24, 120)).out
    assert "\x1b" not in sqlite.done("preview", "one", *FROM, "-n", "2").out
    table = sqlite.done(*everything).out
    assert re.search(r"Sat 2027-01-02 .* one +skipped: on calendar weekend$", table, re.MULTILINE)


def test_entries_come_from_files_too(sqlite: Dcron, tmp_path: Path) -> None:
    (tmp_path / "dates").write_text("# closed\n2027-12-24  # half a day\n\n12-31\n")
    sqlite.done(
        "calendar", "add", "a", f"@{tmp_path / 'dates'}", "-", "2027-01-01", stdin=b"sat\r\n2027-01-02\n"
    )
    content = sqlite.done("calendar", "view", "a", "--json").json
    assert (content["dates"], content["annual"], content["weekdays"]) == (
        ["2027-01-01", "2027-01-02", "2027-12-24"],
        ["12-31"],
        ["sat"],
    )
    (tmp_path / "b.ics").write_text(ICS)
    sqlite.done("calendar", "add", "b", "--ics", str(tmp_path / "b.ics"), "2027-01-15")
    assert sqlite.done("calendar", "add", "c", "--ics", "-", "--json", stdin=ICS.encode()).json["recurring"]
    days = [
        day
        for day, _ in occurrences(sqlite.done("preview", "@daily", "--only", "b", *FROM, "-n", "4", "--json"))
        if _ is None
    ]
    assert days == ["2027-01-05", "2027-01-06", "2027-01-15", "2027-01-31"]


def test_every_bad_entry_is_named_with_its_line_and_nothing_is_written(sqlite: Dcron, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("2027-01-01\n2027-02-30\n\n\x1b[31m\nRRULE:FREQ=NEVER\n")
    refused = sqlite("calendar", "add", "x", f"@{bad}", "soon")
    assert refused.code == 2
    for message in (
        f"{bad}:2: '2027-02-30'",
        f"{bad}:4: '\\x1b[31m'",
        f"{bad}:5: RRULE: FREQ",
        "'soon' is not",
    ):
        assert message in refused.err
    assert "\x1b" not in refused.err
    assert sqlite.done("calendar", "list", "--json").json == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "empty"),
        (["none", "sat"], "none"),
        (["a/b", "sat"], "name"),
        (["x", "-", "--ics", "-"], "once"),
        (["x", "@/nowhere"], "/nowhere"),
        (["x", "--ics", "/nowhere"], "/nowhere"),
        (["x", "--ics", "/etc/hostname"], "iCalendar"),
        (["x", "٢٠٢٧-٠١-٠١"], "not a date"),
        (["x", "2" * 100_000], "256 characters"),
        (["x", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"], "no date"),
    ],
)
def test_a_bad_calendar_is_refused(sqlite: Dcron, words: list[str], message: str) -> None:
    refused = sqlite("calendar", "add", *words)
    assert (refused.code, message in refused.err) == (2, True), refused
    assert len(refused.err) < 1000
    assert sqlite.done("calendar", "list", "--json").json == []


def test_a_calendar_has_bounds(sqlite: Dcron) -> None:
    lines = "\n".join(
        f"{1000 + number // 300:04}-{number // 25 % 12 + 1:02}-{number % 25 + 1:02}"
        for number in range(10_001)
    )
    refused = sqlite("calendar", "add", "x", "-", stdin=lines.encode())
    assert (refused.code, "10,001 dates" in refused.err) == (2, True)


@pytest.mark.terminal
def test_replacing_a_calendar_in_use_asks_on_a_terminal(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "x", "sat")
    sqlite.done("add", "-n", "job", "--except", "x", "@daily", "y")
    words = ("calendar", "add", "x", "sun")
    asked = on_terminal(*words, url=sqlite.url, typed="\n", wait_for="[y/N]")
    assert (asked.code, "replace x: 1 added, 1 removed; job uses it? [y/N]" in asked.out) == (1, True)
    assert on_terminal(*words, url=sqlite.url, typed="y\n", wait_for="[y/N]").code == 0
    assert sqlite.done("calendar", "view", "x", "--json").json["weekdays"] == ["sun"]


def test_a_calendar_that_cannot_be_read_is_listed_beside_the_others(dcron: Dcron) -> None:
    dcron.done("calendar", "add", "old", "RRULE:FREQ=MONTHLY;BYDAY=5MO")
    dcron.done("calendar", "add", "new", "sat")
    dcron.done("add", "-n", "job", "--except", "old", "@daily", "x")
    database = open_database(dcron.url)
    with database.write() as connection:  # as a version without this check has written it
        connection.execute(text("UPDATE calendars SET content = replace(content, '5MO', '9MO')"))
    database.close()
    listed = dcron.done("calendar", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["CALENDAR", "new", "old"]
    message = "calendar old: RRULE: BYDAY counts to 5"
    assert listed.err.startswith(message)
    viewed = dcron.done("calendar", "view", "old")
    assert ("BYDAY=9MO" in viewed.out, viewed.err.startswith(message)) == (True, True)
    assert re.search(r"^job +@daily ", dcron.done("list").out, re.MULTILINE)
    dcron.done("rm", "-f", "job")
    dcron.done("calendar", "rm", "-f", "old")


def test_calendars_travel_with_the_options_of_a_file(sqlite: Dcron) -> None:
    sqlite.done("calendar", "add", "x", "sat")
    sqlite.done("add", "-n", "job", "--except", "x", "--gap", "skip", "--fold", "both", "0 9 * * *", "y")
    text = sqlite.done("export").out
    assert "except=x" in text
    assert sqlite.done("import", "-", stdin=text.encode()).out == "0 added, 0 changed, 1 unchanged\n"
    refused = sqlite("import", "-", stdin=text.replace("except=x", "except=y").encode())
    assert (refused.code, "no calendar 'y'" in refused.err) == (2, True)


@pytest.mark.slow
def test_the_real_command_knows_calendars(sqlite: Dcron) -> None:
    assert real("calendar", "add", "x", "sat", url=sqlite.url).out == "added  x: sat\n"


def test_a_calendar_is_named_by_a_unique_prefix(dcron: Dcron) -> None:
    for name in ("free", "free-days", "holidays"):
        dcron.done("calendar", "add", name, "sat")
    assert dcron.done("calendar", "view", "hol", "--json").json["name"] == "holidays"
    assert dcron.done("calendar", "view", "free", "--json").json["name"] == "free"
    several = dcron("calendar", "view", "fr")
    assert (several.code, "'fr' begins several names: free, free-days;" in several.err) == (2, True)
    refused = dcron("calendar", "rm", "-f", "hol")
    assert (refused.code, "holidays" in refused.err) == (4, True)
    assert dcron.done("calendar", "rm", "-f", "holidays").out == "removed  holidays\n"
    assert dcron("calendar", "view", "hol").code == 4
    assert dcron.done("calendar", "add", "fre", "sun").out == "added  fre: sun\n"
    empty = dcron("calendar", "view", "")
    assert (empty.code, "cannot be a calendar's name" in empty.err) == (2, True)


def test_a_mistake_in_a_calendar_is_shown_as_it_was_typed(sqlite: Dcron) -> None:
    assert "'13-45' is not a date" in sqlite("calendar", "add", "bad", "13-45").err
    assert "'' cannot be a calendar's name" in sqlite("calendar", "add", "", "12-25").err
