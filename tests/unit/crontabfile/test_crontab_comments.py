"""Which comments describe a task."""

import pytest

from dcron.crontabfile import read


def described(text: str) -> str | None:
    return read(text, source="crontab", timezone="UTC").definitions[-1].describe


@pytest.mark.parametrize(
    ("comment", "description"),
    [
        pytest.param("# Nightly dump", "Nightly dump", id="directly above"),
        pytest.param("# One,\n#two,\n  ##   and three.", "One,\ntwo,\nand three.", id="all lines"),
        pytest.param("### --- Backups --- ###", "Backups", id="decoration around words"),
        pytest.param("# - a list\n# in C#", "- a list\nin C#", id="a dash of the text"),
    ],
)
def test_the_comment_above_a_task_describes_it(comment: str, description: str) -> None:
    assert described(f"{comment}\n@daily x\n") == description


@pytest.mark.parametrize("between", ["", "  ", "A=b", "@hourly y"])
def test_a_comment_further_up_is_about_something_else(between: str) -> None:
    assert described(f"# Header\n{between}\n@daily x\n") is None


@pytest.mark.parametrize("rule", ["#", "####", "#----", "# ====== #", "#*_*~"])
def test_decoration_is_left_out(rule: str) -> None:
    assert described(f"{rule}\n# Dump\n{rule}\n@daily x\n") == "Dump"


@pytest.mark.parametrize(
    "line",
    [
        "# 0 5 * * * old",
        "#*/5 * * * mon-fri root old",
        "#@daily old",
        "#-*/15 * * * * root old",
        "#MAILTO=root",
        "# m h  dom mon dow   command",
        "# min hour day month weekday command",
        "# *  *  *  *  * user-name command to be executed",
    ],
)
def test_disabled_lines_and_headings_describe_nothing_nor_do_the_comments_above_them(line: str) -> None:
    assert described(f"# About the old one\n{line}\n@daily x\n") is None
    assert described(f"# About the old one\n{line}\n# About x\n@daily x\n") == "About x"


@pytest.mark.parametrize(
    "text", ["Run at 5 every day", "5 times a day", "@home only", "Path = where it looks"]
)
def test_prose_that_resembles_a_line_is_prose(text: str) -> None:
    assert described(f"# {text}\n@daily x\n") == text
