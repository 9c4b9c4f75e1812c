"""A hostile file costs no more than an honest one of its size."""

from time import process_time

import pytest

from dcron.crontabfile import MAX_BYTES, MAX_TASKS, read
from dcron.errors import CrontabFileError

PATIENCE = 5.0
"""Seconds of CPU. All cases take well under one here; a quadratic one takes minutes anywhere."""


def full(line: str) -> str:
    return line * (MAX_BYTES // len(line))


def padded(begin: str, middle: str, end: str = "") -> str:
    return begin + middle * ((MAX_BYTES - len(begin) - len(end)) // len(middle)) + end


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        full("\n"),
        full("#\n"),
        full("\r\n"),
        full("x\n"),
        full("'=\n"),
        full("A=1\n"),
        full("99 * * * * x\n"),
        full("CRON_TZ=UTC\n"),
        full("CRON_TZ=Foo\n"),
        "".join(f"A{number % 256}={number}\n@daily a\n" for number in range(MAX_TASKS)),
        "".join(f"@daily {'$(' * 40}\n" for _ in range(MAX_TASKS)),
        "".join(f"@daily a {number}\n" for number in range(MAX_TASKS)),
        padded("@daily ", "%"),
        padded("@daily ", "\\"),
        padded("@daily ", "\"'"),
        padded("@daily x", " "),
        padded("A", " "),
        padded("A='", "a"),
        padded("#dcron: ", '"'),
        padded("#dcron: ", "a='"),
        padded("#dcron: ", "env=A=b "),
        padded("#dcron: a=", "\\"),
        padded("#", " -", "\n@daily x\n"),
        padded("# m ", "h ", "\n@daily x\n"),
        padded("# ", "* ", "\n@daily x\n"),
        padded("# word\n", "# word\n", "@daily x\n"),
    ],
    ids=lambda text: repr(text[:16]),
)
def test_reading_is_linear(text: str) -> None:
    begin = process_time()
    message = ""
    try:
        read(text, source="tab", timezone="UTC")
    except CrontabFileError as error:
        message = str(error)
    assert process_time() - begin < PATIENCE
    assert len(message) < 500_000


def test_a_file_above_the_bound_is_refused_counted_in_bytes() -> None:
    read(padded("#", "x"), source="tab", timezone="UTC")
    for text in ("#" * (MAX_BYTES + 1), "#" + "é" * (MAX_BYTES // 2)):
        with pytest.raises(CrontabFileError, match=r"^tab: larger than 1,000,000 bytes$"):
            read(text, source="tab", timezone="UTC")


def test_ten_thousand_tasks_are_read_and_no_more() -> None:
    text = "@daily x\n" * MAX_TASKS
    assert len(read(text, source="tab", timezone="UTC").definitions) == MAX_TASKS
    with pytest.raises(CrontabFileError, match=r"^tab:10001:1: there are more than 10,000 tasks$"):
        read(text + "@daily x\n", source="tab", timezone="UTC")


def test_not_all_errors_of_a_file_of_bad_lines_are_listed() -> None:
    with pytest.raises(CrontabFileError, match=r"tab: more than 1,000 bad lines; the rest was not read$"):
        read("x\n" * 5000, source="tab", timezone="UTC")
