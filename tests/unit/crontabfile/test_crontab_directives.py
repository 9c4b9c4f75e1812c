"""What `#dcron:` comments say."""

import pytest

from dcron.crontabfile import CrontabFile, read
from dcron.model import Definition


def crontab(text: str) -> CrontabFile:
    return read(text, source="crontab", timezone="UTC")


def only(text: str) -> Definition:
    (definition,) = crontab(text).definitions
    return definition


def test_a_directive_sets_the_options_of_the_line_below() -> None:
    task = only("#dcron: name=dump timeout=1h30m max_running=2 cwd=/srv user=backup\n@daily pg_dump\n")
    assert task == Definition(
        name="dump",
        schedule="@daily",
        timezone="UTC",
        command="pg_dump",
        timeout=5400,
        max_running=2,
        cwd="/srv",
        user="backup",
    )


def test_directives_may_be_on_several_lines_among_comments() -> None:
    task = only("# Dumps\n# dcron: name=dump\n# the shop\n  #dcron:max_running=none  \n@daily pg_dump\n")
    assert (task.name, task.describe, task.max_running) == ("dump", "Dumps\nthe shop", None)


def test_a_directive_holds_for_one_line_only() -> None:
    first, second = crontab("#dcron: timeout=5s\n@daily a\n@daily b\n").definitions
    assert (first.timeout, second.timeout) == (5, None)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("plain", "plain"),
        ('"two words"', "two words"),
        ("'$HOME \"x\"'", '$HOME "x"'),
        (r'"a\nb\tc\"d\\e\u0007"', 'a\nb\tc"d\\e\x07'),
        ("a\"b c\"'d e'f", "ab cd ef"),
        (r"a\ b", "a b"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_values_are_quoted_as_in_a_shell(written: str, value: str) -> None:
    assert only(f"#dcron: cwd={written} name=x\n@daily x\n").cwd == value


def test_a_task_can_be_written_in_comments_alone() -> None:
    task = only('#dcron: name=ping schedule="*/10 * * * * *"\n#dcron$ curl "50%" # \\x\n')
    assert (task.schedule, task.command) == ("*/10 * * * * *", 'curl "50%" # \\x')


@pytest.mark.parametrize(
    ("text", "command"),
    [
        pytest.param("\n#dcron$ set -e\n#dcron$\n#dcron$   a\n", "set -e\n\n  a", id="of several lines"),
        pytest.param(r' command="a\r\u001b"', "a\r\x1b", id="as an option"),
    ],
)
def test_its_command_may_be_written(text: str, command: str) -> None:
    assert only(f"#dcron: schedule=@daily{text}").command == command


def test_it_ends_where_its_command_ends() -> None:
    first, second, third = crontab(
        "#dcron: schedule=@daily\n#dcron$ a\n# about b\n#dcron: schedule=@hourly\n#dcron$ b\n@weekly c\n"
    ).definitions
    assert [first.command, second.command, third.command] == ["a", "b", "c"]
    assert [first.describe, second.describe, third.describe] == [None, "about b", None]


def test_a_file_knows_where_each_task_is() -> None:
    assert crontab("A=b\n@daily a\n#dcron: schedule=@daily\n#dcron$ b\n").lines == {"a": 2, "b": 4}


def test_argv_alone_takes_the_words_of_the_command() -> None:
    task = only("#dcron: argv\n@daily cp -a '/my files' /backup\n")
    assert task.argv == ("cp", "-a", "/my files", "/backup")
    assert task.command == "cp -a '/my files' /backup"


def test_argv_can_differ_from_the_command() -> None:
    assert only("#dcron: argv=\"cp 'a b' ''\"\n@daily copy it\n").argv == ("cp", "a b", "")


def test_env_is_for_one_task_and_unset_for_all_below() -> None:
    text = "A=1\nB=2\n#dcron: env=A=x env='C\\=D=e=f'\n@daily a\n\n#dcron: unset=A\n@daily b\n@daily c\n"
    assert [task.env for task in crontab(text).definitions] == [
        {"A": "x", "B": "2", "C=D": "e=f"},
        {"B": "2"},
        {"B": "2"},
    ]


def test_a_file_can_say_itself_that_it_has_accounts() -> None:
    assert only("#dcron: system\n\n@daily root x\n").user == "root"


def test_a_description_in_the_directive_comes_before_the_comment() -> None:
    assert only('# not this\n#dcron: describe="this\\none"\n@daily x\n').describe == "this\none"


def test_a_forgotten_colon_is_warned_about() -> None:
    (notice,) = crontab("#dcron timeout=5s\n@daily x\n").warnings
    assert notice.message == 'this is taken for a comment; a directive begins with "#dcron:"'
