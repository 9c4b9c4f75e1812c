"""A hostile JSON or TOML file costs no more than an honest one of its size."""

import json
from time import process_time

import pytest

from dcron.errors import CrontabFileError
from dcron.sources import Format, parse

SIZE = 400_000
PATIENCE = 10.0
"""Seconds of CPU. All cases take two at most here; a quadratic one takes minutes anywhere."""


def full(begin: str, middle: str, end: str = "") -> str:
    return begin + middle * ((SIZE - len(begin) - len(end)) // len(middle)) + end


def numbered(pattern: str, number: int) -> str:
    return "".join(pattern.replace("N", str(each)) for each in range(number))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("json", full("[", "[")),
        ("json", full("", '{"a":')),
        ("json", full("[", "1,", "1]")),
        ("json", full('["', "\\u0041", '"]')),
        ("json", full("{", '"a":1,', '"a":1}')),
        ("json", full('[{"name":"a","env":{', '"a":"b",', '"a":"b"}}]')),
        ("json", full("[[", "[],", "[]]]")),
        ("json", full("[{", '"')),
        ("json", full("[", "9", "]")),
        ("json", full("[0.", "9", "]")),
        ("json", "{" + numbered('"aN":1,', 30_000) + '"b":1}'),
        ("json", full("", "\n")),
        ("json", json.dumps([{"name": f"a{n}", "schedule": "x", "command": "x"} for n in range(10_000)])),
        ("json", full("[", '{"a":' * 100 + "1" + "}" * 100 + ",", '{"b":{"c":{"d":{"e":{"f":1,"f":1}}}}}]')),
        ("toml", full("[", "a.", "b]\n") + "x=1\n" * 50_000),
        ("toml", full("", "a.", "b=1")),
        ("toml", full("x = {", "a.", "b=1}")),
        ("toml", full("x=", "[")),
        ("toml", full("x=", "{a=")),
        ("toml", full('x="""', '"a', '"""')),
        ("toml", full('x="""', "\n[a]", '"""')),
        ("toml", full("x='''", "'a", "'''")),
        ("toml", full('x="', "\\")),
        ("toml", full("", "'", "=1")),
        ("toml", full('"', "\\u0061", '"=1')),
        ("toml", full("x=[", "{a.b=1},", "1]")),
        ("toml", full("", "[[task]]\n")),
        ("toml", full("x=", "9")),
        ("toml", full("x=0.", "9")),
        ("toml", full("", "\n")),
        ("toml", full("", " ")),
        ("toml", numbered("aN=1\n", 30_000)),
        ("toml", numbered('[task.aN]\nschedule="x"\ncommand="x"\n', 10_000)),
    ],
    ids=lambda text: repr(text[:16]),
)
def test_reading_is_linear(format: Format, text: str) -> None:
    begin = process_time()
    message = ""
    try:
        parse(text, file="file", timezone="UTC", format=format)
    except CrontabFileError as error:
        message = str(error)
    assert process_time() - begin < PATIENCE
    assert len(message) < 500_000
