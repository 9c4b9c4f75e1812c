"""Bad files: every bad line, each with its line and column."""

import pytest

from dcron.crontabfile import MAX_VARIABLES, read
from dcron.errors import CrontabFileError, ExitCode


def refused(text: str, *, system: bool = False) -> str:
    with pytest.raises(CrontabFileError) as error:
        read(text, source="tab", timezone="UTC", system=system)
    assert error.value.exit_code is ExitCode.USAGE
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello world", "1:1: neither NAME=value nor five time fields (or an @word) and a command"),
        ("\n  */5 * * *", "2:3: neither NAME=value nor five time fields (or an @word) and a command"),
        ("0 5 * * *   ", "1:10: there is no command after the schedule"),
        ("0 5 * * *   %text", "1:13: there is no command before the %"),
        ("@every 90s", "1:11: there is no command after the schedule"),
        ("@every", "1:1: the schedule is not complete, and there is no command"),
        ('A="b', '1:3: the value begins with " and has no " at its end'),
        ("A='b' c", "1:6: there is more text after the quoted value"),
        ("CRON_TZ=Mars/Base", "1:9: 'Mars/Base' is not a time zone; names look like Europe/Berlin or UTC"),
        ("#dcron: tmeout=5s\n@daily x", '1:9: there is no option "tmeout"; did you mean timeout?'),
        (
            "#dcron: max-running=5\n@daily x",
            '1:9: there is no option "max-running"; did you mean max_running?',
        ),
        ("#dcron: zzz\n@daily x", '1:9: there is no option "zzz"'),
        ("#dcron: name=a =b\n@daily x", '1:16: "=b" is not an option; they are written name=value'),
        ("#dcron: name=a cwd='x\n@daily x", "1:20: the ' that begins here has no end"),
        ('#dcron: cwd="a\\qb"\n@daily x', '1:15: "\\q" means nothing; a backslash is written \\\\'),
        ('#dcron: cwd="\\u0000"\n@daily x', "1:14: a NUL character cannot be handed to any command"),
        (
            '#dcron: name="a b"\n@daily x',
            "1:15: name=\"a b\": 'a b' cannot be a task's name: use 1 to 100 of A-Z a-z 0-9 . _ -",
        ),
        ("#dcron: name\n@daily x", "1:9: name: it needs a value"),
        (
            "#dcron: max_running=0\n@daily x",
            '1:21: max_running="0": 0 is not valid; give a number from 1 on, or none for no limit',
        ),
        ("#dcron: tries=0\n@daily x", '1:15: tries="0": 0 is not valid; give 1 to 1000, the first included'),
        (
            "#dcron: tries=none\n@daily x",
            "1:15: tries=\"none\": 'none' is not a whole number; give 1 to 1000, the first included",
        ),
        ("#dcron: every_node=maybe\n@daily x", '1:20: every_node="maybe": write it alone, or with yes or no'),
        (
            "#dcron: backoff_factor=1e5\n@daily x",
            "1:24: backoff_factor=\"1e5\": '1e5' is not a number; write digits, such as 1 or 0.5",
        ),
        ("#dcron: require\n@daily x", "1:9: require: it needs a value"),
        (
            "#dcron: need=gpu\n@daily x",
            "1:14: need=\"gpu\": 'gpu': write a name and an amount, such as gpu=1 or mem=8G",
        ),
        (
            "#dcron: need=gpu=1,gpu=2\n@daily x",
            '1:14: need="gpu=1,gpu=2": gpu is given twice; give it once, with the amount that counts',
        ),
        (
            "#dcron: limit=foo=1\n@daily x",
            "1:15: limit=\"foo=1\": 'foo' cannot be limited; there are mem, cpu-time, files, procs,"
            " file-size, core",
        ),
        (
            "#dcron: timeout=0s\n@daily x",
            '1:17: timeout="0s": 0s is not valid; give a duration longer than nothing and up to a century,'
            " such as 30m",
        ),
        ("#dcron: env=A\n@daily x", '1:13: env="A": an environment variable is written env=NAME=value'),
        ("#dcron: name=a\n#dcron: name=b\n@daily x", "2:9: name is given twice"),
        ("#dcron: name=a\n\n@daily x", "1:9: there is no task below this directive"),
        ("#dcron: name=a\nA=b\n@daily x", "1:9: there is no task below this directive"),
        ("#dcron: stdin=a\n@daily x%b", "1:9: the line below sets the stdin too"),
        (
            "#dcron: schedule=@daily\n@hourly x",
            "1:9: schedule= needs its command directly below it: #dcron$ COMMAND",
        ),
        (
            "#dcron: schedule=@daily command=a\n#dcron$ b",
            "1:25: the command is given twice, here and as #dcron$",
        ),
        ("#dcron$ a", "1:1: #dcron$ needs schedule=… in a #dcron: line directly above it"),
        (
            "#dcron: argv\n@daily it's",
            "1:9: the command cannot be split into words: no closing quotation",
        ),
        ("#dcron: unset", "1:9: unset needs the name of a variable: unset=NAME"),
        ("@daily x\n#dcron: system", "2:9: system belongs above the first task: it is for the whole file"),
        (
            "#dcron: name=a\n@daily x\n#dcron: name=a\n@daily y",
            '3:14: the name "a" is taken by the task of line 2',
        ),
    ],
)
def test_a_bad_line_is_named_with_its_line_and_column(text: str, said: str) -> None:
    assert refused(text) == f"tab:{said}"


def test_a_bad_duration_says_what_would_be_right() -> None:
    assert refused("#dcron: timeout=soon\n@daily x").startswith(
        "tab:1:17: timeout=\"soon\": 'soon' is not a duration"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 5 * * *", "1:10: a system crontab has an account and a command after the schedule"),
        ("0 5 * * * root", "1:15: there is no command after the account"),
        (
            "0 5 * * * /bin/x y",
            '1:11: "/bin/x" is not an account; in a system crontab one is between schedule and command',
        ),
        ("#dcron: user=a\n@daily root x", "1:9: the line below sets the user too"),
    ],
)
def test_a_bad_system_line_is_named_with_its_line_and_column(text: str, said: str) -> None:
    assert refused(text, system=True) == f"tab:{said}"


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("99 5 * * * x", 1),
        ("  0 \t99   * * * x", 6),
        ("0 5 * * 1,2,9 x", 13),
        ("-0 99 * * * x", 4),
        ("@evry 90s x", 1),
        ("@every soon x", 1),
        ('#dcron: name=x schedule="0 0 99 * * *" command=y', 30),
    ],
)
def test_a_bad_schedule_is_named_with_the_column_of_its_field(line: str, column: int) -> None:
    message = refused(f"\n{line}\n")
    assert message.startswith(f"tab:2:{column}: ")
    assert "column" not in message


def test_every_bad_line_is_named_in_the_order_of_the_file() -> None:
    text = "@daily fine\nbad\n99 * * * * x\n#dcron: nam=x\n#dcron: name=y\n\nCRON_TZ=No\n* 99 * * * y\n"
    places = [line.split(": ")[0] for line in refused(text).splitlines()]
    assert places == ["tab:2:1", "tab:3:1", "tab:4:9", "tab:5:9", "tab:7:9", "tab:8:3"]


def test_a_nul_character_is_refused_at_its_place() -> None:
    assert refused("@daily a\n@daily b\0c") == "tab:2:9: a NUL character does not belong in a crontab"


def test_long_text_from_the_file_is_cut_in_messages() -> None:
    assert len(refused(f"#dcron: {'x' * 5000}=1")) < 200


def test_a_long_schedule_is_refused() -> None:
    assert refused(f"{'1,' * 200}1 * * * * x").startswith("tab:1:1: ")


def test_more_variables_than_a_task_can_have_are_refused() -> None:
    text = "".join(f"A{number}=x\n" for number in range(MAX_VARIABLES + 1))
    assert refused(text) == f"tab:{MAX_VARIABLES + 1}:1: there are more than {MAX_VARIABLES} variables"
    text = "#dcron: " + " ".join(f"env=A{number}=x" for number in range(MAX_VARIABLES + 1)) + "\n@daily x"
    assert refused(text).endswith(f": there are more than {MAX_VARIABLES} variables")
