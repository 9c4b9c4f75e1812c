"""Reading the lines that crontab(5) knows."""

import pytest

from dcron.crontabfile import CrontabFile, read
from dcron.model import Definition


def crontab(text: str, *, system: bool = False, source: str = "crontab") -> CrontabFile:
    return read(text, source=source, timezone="Europe/Berlin", system=system)


def only(text: str, *, system: bool = False) -> Definition:
    (definition,) = crontab(text, system=system).definitions
    return definition


def messages(text: str, *, system: bool = False) -> list[tuple[int, str]]:
    return [(notice.line, notice.message) for notice in crontab(text, system=system).warnings]


def test_a_line_is_five_fields_and_a_command() -> None:
    assert only("30 2 * * *  backup --all > /dev/null\n") == Definition(
        name="backup",
        schedule="30 2 * * *",
        timezone="Europe/Berlin",
        command="backup --all > /dev/null",
    )


def test_fields_may_be_set_apart_by_tabs_and_many_spaces() -> None:
    assert only("  17 *\t* *   *\t\tx").schedule == "17 * * * *"


def test_an_empty_file_has_no_tasks() -> None:
    assert crontab("").definitions == ()


@pytest.mark.parametrize(
    "schedule",
    [
        "@daily",
        "@reboot",
        "@every 90s",
        "@at 2030-01-01T09:00",
        "@delay 5m",
        "@on deploy",
        "@after a,b",
        "H 3 * * *",
        "RRULE:FREQ=DAILY;BYHOUR=9",
        "DTSTART:20270101T090000 RRULE:FREQ=DAILY",
    ],
)
def test_the_other_forms_of_a_schedule_come_before_a_command_too(schedule: str) -> None:
    task = only(f"{schedule}   run it\n")
    assert (task.schedule, task.command) == (schedule, "run it")


def test_a_system_line_names_the_account() -> None:
    task = only("@every 90s\troot  cd / && run", system=True)
    assert (task.schedule, task.user, task.command) == ("@every 90s", "root", "cd / && run")


def test_the_last_line_needs_no_newline_and_blanks_at_its_end_belong_to_the_command() -> None:
    assert only("@daily x\\  ").command == "x\\  "


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        (r"date +\%F", "date +%F", None),
        ("cat%one%two", "cat", "one\ntwo\n"),
        (r"cat%100\%%two", "cat", "100%\ntwo\n"),
        ("cat%", "cat", ""),
        ("cat%%", "cat", "\n"),
        ("cat % one", "cat ", " one\n"),
        (r"echo \\%in", r"echo \\", "in\n"),
        (r"echo a\b", r"echo a\b", None),
        (r"cat%a\\%b", "cat", "a\\%b\n"),
        ("x\\", "x\\", None),
    ],
)
def test_a_percent_sign_ends_the_command(written: str, command: str, stdin: str | None) -> None:
    task = only(f"0 5 * * * {written}")
    assert (task.command, task.stdin) == (command, stdin)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A  =  b c  ", "A", "b c"),
        ("A='  b  '", "A", "  b  "),
        ('A="b\'c"   ', "A", "b'c"),
        ("A=", "A", ""),
        ('A=""', "A", ""),
        ("A=$HOME/b=c#d", "A", "$HOME/b=c#d"),
        ("'B C'=d", "B C", "d"),
        ("TZ=America/New_York", "TZ", "America/New_York"),
    ],
)
def test_an_assignment_is_taken_as_it_is(line: str, name: str, value: str) -> None:
    task = only(f"{line}\n@daily x\n")
    assert task.env == {name: value}
    assert task.timezone == "Europe/Berlin"


def test_assignments_apply_to_the_lines_below_them() -> None:
    first, second, third = crontab("@daily a\nA=1\n@daily b\nA=2\nB=3\n@daily c\n").definitions
    assert [first.env, second.env, third.env] == [{}, {"A": "1"}, {"A": "2", "B": "3"}]


def test_the_shell_and_the_zone_of_the_schedule_are_no_variables() -> None:
    first, second = crontab("@daily a\nSHELL=/bin/bash\nCRON_TZ=Asia/Tokyo\n@daily b\n").definitions
    assert (first.shell, first.timezone) == ("/bin/sh", "Europe/Berlin")
    assert (second.shell, second.timezone, second.env) == ("/bin/bash", "Asia/Tokyo", {})


def test_mail_is_warned_about_once() -> None:
    assert messages('MAILTO=""\n@daily a\nMAILTO=ops\nMAILFROM=cron\n') == [
        (
            3,
            "what the commands below print is mailed to ops, as cron does;"
            " `dcron import --no-mail` leaves that out",
        )
    ]


def test_the_dash_that_silences_syslog_is_left_out() -> None:
    text = "-*/15 * * * * root run\n-@daily root walk\n"
    assert [task.schedule for task in crontab(text, system=True).definitions] == ["*/15 * * * *", "@daily"]
    assert messages(text, system=True) == [
        (1, 'the "-" before a schedule, which keeps runs out of syslog, is left out')
    ]


def test_windows_line_ends_are_left_out_with_a_warning() -> None:
    text = "\ufeffA=b\r\n\r\n# what it does\r\n@daily x\r\n"
    task = only(text)
    assert (task.command, task.env, task.describe) == ("x", {"A": "b"}, "what it does")
    assert messages(text) == [(1, "the lines end in CR LF, as on Windows; the CRs are left out")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0 9 * * * x", 'the command begins with "*": six fields are written #dcron: schedule="…"'),
        ("0 5 * * * root x", 'the command begins with "root": a file with accounts is read with --system'),
        ("0 5 * * * date +%F", "the command ends at the first %; a percent sign is written \\%"),
        ('0 5 * * * a "$(date +%F)"', "the command ends at the first %; a percent sign is written \\%"),
    ],
)
def test_lines_that_probably_mean_something_else_are_warned_about(line: str, message: str) -> None:
    assert messages(f"\n{line}\n") == [(2, message)]


@pytest.mark.parametrize(
    "line", ["@daily 7z x", "0 5 * * * 7z x", "0 5 * * * root", "0 5 * * * cat%it", "@daily a b"]
)
def test_ordinary_lines_are_not_warned_about(line: str) -> None:
    assert messages(line) == []
