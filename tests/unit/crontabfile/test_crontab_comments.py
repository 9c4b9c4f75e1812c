"""Which comments describe a task."""

import pytest

from dcron.crontabfile import read


def described(text: str) -> str | None:
    return read(text, source="crontab", timezone="UTC").definitions[-1].describe


def test_the_comment_directly_above_a_line_describes_it() -> None:
    assert described("# Nightly dump\n@daily x\n") == "Nightly dump"


def test_all_lines_of_the_comment_count() -> None:
    assert described("# One,\n#two,\n  ##   and three.\n@daily x\n") == "One,\ntwo,\nand three."


@pytest.mark.parametrize("between", ["", "  ", "A=b", "@hourly y"])
def test_a_comment_further_up_is_about_something_else(between: str) -> None:
    assert described(f"# Header\n{between}\n@daily x\n") is None


@pytest.mark.parametrize("rule", ["#", "####", "#----", "# ====== #", "#*_*~"])
def test_decoration_is_left_out(rule: str) -> None:
    assert described(f"{rule}\n# Dump\n{rule}\n@daily x\n") == "Dump"


def test_decoration_around_words_is_left_out() -> None:
    assert described("### --- Backups --- ###\n@daily x\n") == "Backups"


def test_a_dash_that_is_part_of_the_text_stays() -> None:
    assert described("# - a list\n# in C#\n@daily x\n") == "- a list\nin C#"


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
