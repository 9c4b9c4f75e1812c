"""`why`: one sentence a cause."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from dcron.services.why import Span
from dcron.services.why.service import read_when
from tests.support.cli import Dcron, on_terminal


@pytest.mark.slow
def test_without_a_time_it_explains_the_last_run_and_the_next(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "-z", "UTC", "@yearly", "exit 3")
    dcron.done("run", "backup")
    dcron.run_due()
    shown = dcron.done("why", "backup").out.splitlines()
    assert re.search(
        r"run \d+, asked for by hand, ran on web-1-[0-9a-f]{8}, from .* it failed after", shown[0]
    )
    assert any(re.search(r"-01-01 00:00 UTC: run \d+ is due then, in \d+d", line) for line in shown)
    assert any("no agent is running, since web-1-" in line for line in shown)


def test_json_has_the_keys_of_the_contract(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "-z", "UTC", "30 9 * * *", "true")
    dcron.done("pause", "backup", "--reason", "maintenance")
    document = dcron.done("why", "backup", "tomorrow", "09:30", "--json").json
    (cause,) = document["causes"]
    assert (document["task"], document["until"]) == ("backup", None)
    assert document["when"].endswith("T09:30:00Z")
    assert (cause["code"], cause["reason"], cause["at"]) == ("paused", "maintenance", document["when"])
    assert cause["since"].endswith("Z")
    assert "maintenance" in cause["sentence"]


def test_when_is_read_in_the_tasks_zone(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "-z", "Asia/Tokyo", "30 9 * * *", "true")
    for when in (["2050-01-01T09:30"], ["2050-01-01", "9:30"], ["2050-01-01T00:30Z"]):
        document = sqlite.done("why", "backup", *when, "--json").json
        assert (document["when"], document["causes"][0]["code"]) == ("2050-01-01T00:30:00Z", "future")
    day = sqlite.done("why", "backup", "2050-01-01", "--json").json
    assert (day["when"], day["until"]) == ("2049-12-31T15:00:00Z", "2050-01-01T15:00:00Z")
    assert "2050-01-01 09:30 JST" in day["causes"][0]["sentence"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("9:05", "2027-06-02T00:05"),
        ("23:30", "2027-06-02T14:30"),
        ("yesterday 09:05", "2027-06-01T00:05"),
        ("Tomorrow 9:05", "2027-06-03T00:05"),
        ("2027-06-01 9:05", "2027-06-01T00:05"),
        ("2027-06-01T09:05Z", "2027-06-01T09:05"),
        ("+1h", "2027-06-01T21:00"),
        ("now", "2027-06-01T20:00"),
    ],
)
def test_a_bare_clock_time_is_todays_and_words_name_the_days_around(typed: str, meant: str) -> None:
    now = datetime(2027, 6, 1, 20, tzinfo=UTC)  # the second of June in Tokyo
    assert read_when(typed, "Asia/Tokyo", now) == datetime.fromisoformat(f"{meant}+00:00")


def test_a_day_is_all_of_it_however_long() -> None:
    now = datetime(2027, 6, 1, 20, tzinfo=UTC)
    for typed in ("yesterday", "2027-06-01"):
        span = read_when(typed, "Asia/Tokyo", now)
        assert span == Span(datetime(2027, 5, 31, 15, tzinfo=UTC), datetime(2027, 6, 1, 15, tzinfo=UTC))
    short = read_when("2027-03-28", "Europe/Berlin", now)
    assert isinstance(short, Span)
    assert short.end - short.first == timedelta(hours=23)


def test_an_unknown_task_is_not_found_and_a_removed_one_is_explained(dcron: Dcron) -> None:
    assert dcron("why", "nothing").code == 4
    dcron.done("add", "-n", "backup", "@yearly", "true")
    dcron.done("rm", "backup", "--force")
    shown = dcron.done("why", "backup").out
    assert "backup was removed by" in shown
    bad = dcron("why", "backup", "soonish")
    assert (bad.code, "is not a time" in bad.err) == (2, True)


@pytest.mark.terminal
def test_hostile_text_is_inert(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "@yearly", "true")
    sqlite.done("pause", "backup", "--reason", "\x1b]52;c;cm0=\x07 \u202egnp")
    shown = on_terminal("why", "backup", url=sqlite.url, NO_COLOR="1").out
    assert "paused by" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)


@pytest.mark.terminal
def test_colours_are_for_terminals_that_show_them(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "@yearly", "true")
    plain = sqlite.done("why", "backup").out
    assert "\x1b" not in plain
    assert on_terminal("why", "backup", url=sqlite.url, NO_COLOR="1").out.count("\x1b") == 0
    assert "\x1b[1m" in on_terminal("why", "backup", url=sqlite.url).out
    sqlite.done("pause", "backup")
    assert "\x1b[33mbackup is paused" in on_terminal("why", "backup", url=sqlite.url).out


def test_runs_that_wait_for_the_same_are_counted(dcron: Dcron) -> None:
    dcron.done("add", "-n", "df", "-z", "UTC", "*/5 * * * *", "df")
    dcron.done("backfill", "df", "-f", "--from", "2026-11-20", "--to", "2026-11-20 10:00")
    causes = dcron.done("why", "df", "--json").json["causes"]
    waiting = [each for each in causes if each.get("trigger") == "backfill"]
    assert [each["code"] for each in waiting] == ["no-agent", "limit"]
    assert waiting[1]["more"] == 119
    assert "; the same holds for 119 more, up to 2026-11-20 10:00 UTC" in dcron.done("why", "df").out


def test_a_fresh_task_has_no_past(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "df", "*/5 * * * *", "df")
    causes = sqlite.done("why", "df", "--json").json["causes"]
    assert [each["code"] for each in causes] == ["future", "no-agent"]
    assert "df was not there yet" in sqlite.done("why", "df", "2026-11-01").out
