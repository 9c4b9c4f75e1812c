"""Amounts as users type them, and as they are written back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.errors import UsageError
from dcron.values.quantities import (
    LEAST_AMOUNT,
    LIMITS,
    MOST,
    MOST_AMOUNT,
    format_amount,
    format_limit,
    format_number,
    format_size,
    parse_amount,
    parse_limit,
    parse_need,
    parse_number,
    parse_size,
    require_amount,
    require_limit,
)
from dcron.warden import limits as warden_limits


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        ("1K", 1024),
        ("512M", 512 << 20),
        ("8G", 8 << 30),
        ("8g", 8 << 30),
        ("8GB", 8 << 30),
        ("8GiB", 8 << 30),
        ("2T", 2 << 40),
        ("1.5G", 3 << 29),
        ("0.5k", 512),
        ("1.3K", 1331),
    ],
)
def test_a_size_is_bytes_with_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "8 G", "8X", "8KG", "-1", "1e9", "1.G", ".5G", "٨", "8G\n", "9" * 99]
)
def test_what_is_no_size_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a size; write a number of bytes, or one with K, M, G or T"):
        parse_size(text)


def test_needs_are_amounts_by_name_and_memory_is_bytes() -> None:
    found = parse_need(["gpu=1", "mem=8G", "cpu=0.5", "scratch-bytes=1K", "api.calls_a=3"])
    assert found == {"gpu": 1, "mem": 8 << 30, "cpu": 0.5, "scratch-bytes": 1024, "api.calls_a": 3}
    assert all(isinstance(amount, float) for amount in found.values())
    assert parse_need([]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu", "'gpu': write a name and an amount, such as gpu=1 or mem=8G"),
        ("", "'': write a name and an amount"),
        ("GPU=1", "'GPU' is not a name; write 1 to 40 of the letters a-z"),
        ("=1", "'' is not a name"),
        ("a b=1", "'a b' is not a name"),
        ("x" * 41 + "=1", "is not a name"),
        ("gpu=", "'gpu=': '' is not a number; write digits, such as 1 or 0.5"),
        ("gpu=one", "'gpu=one': 'one' is not a number"),
        ("gpu=-1", "'-1' is not a number"),
        ("gpu=nan", "'nan' is not a number"),
        ("gpu=1G", "'1G' is not a number"),
        ("gpu=0", "gpu: give more than 0 and up to 1,000,000,000, not 0.0"),
        ("gpu=1000000001", "gpu: give more than 0"),
        ("mem=0", "mem: give whole bytes, from 1 on, as in mem=8G, not 0"),
        ("mem=8X", "'mem=8X': '8X' is not a size"),
    ],
)
def test_a_bad_amount_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_amount(text)
    assert message in str(refused.value)


def test_limits_are_bytes_seconds_and_counts() -> None:
    texts = ["mem=2G", "cpu-time=60", "files=100", "procs=50", "file-size=1.5G", "core=0"]
    expected = {"mem": 2 << 30, "cpu-time": 60, "files": 100, "procs": 50, "file-size": 3 << 29, "core": 0}
    assert parse_limit(texts) == expected
    assert all(isinstance(value, int) for value in parse_limit(texts).values())


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("90s", 90), ("2m", 120), ("1h30m", 5400), ("1.5m", 90), ("1d", 86_400)]
)
def test_a_limit_of_time_takes_durations(text: str, seconds: int) -> None:
    assert parse_limit([f"cpu-time={text}"]) == {"cpu-time": seconds}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mem", "'mem': write a name and an amount, such as mem=2G or files=100"),
        ("memory=2G", "'memory' cannot be limited; there are mem, cpu-time, files, procs, file-size, core"),
        ("mem=0", "mem: give from 1 to "),
        ("mem=5000000T", "mem: give from 1 to "),
        ("cpu-time=0", "cpu-time: give from 1 to 4,294,967,296 seconds, not 0"),
        ("cpu-time=soon", "'soon' is not a time; write seconds, or a duration such as 90s, 2m or 1h30m"),
        ("cpu-time=0.5s", "'0.5s': the time is kept in whole seconds"),
        ("files=many", "'many' is not a whole number"),
        ("files=1.5", "'1.5' is not a whole number"),
        ("files=0", "files: give from 1 to 2,147,483,648, not 0"),
        ("procs=" + "9" * 30, "is not a whole number"),
    ],
)
def test_a_bad_limit_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_limit([text])
    assert message in str(refused.value)


@pytest.mark.parametrize("read", [parse_need, parse_limit])
def test_what_is_given_twice_is_refused(read: Callable[[list[str]], object]) -> None:
    with pytest.raises(UsageError, match="mem is given twice"):
        read(["mem=1G", "mem=2G"])


@pytest.mark.parametrize("amount", [True, None, "1", [1], float("nan"), float("inf"), -1, 0, 10**400])
def test_an_amount_written_by_hand_is_checked_too(amount: object) -> None:
    for name in ("gpu", "mem"):
        with pytest.raises(UsageError):
            require_amount(name, amount)
    with pytest.raises(UsageError):
        require_limit("mem", amount)


def test_half_a_byte_and_half_a_file_are_refused() -> None:
    with pytest.raises(UsageError, match="whole bytes"):
        require_amount("mem", 0.5)
    with pytest.raises(UsageError, match=r"files: 1\.0 is not a whole number"):
        require_limit("files", 1.0)


def test_amounts_are_written_with_the_largest_unit_that_leaves_a_whole_number() -> None:
    assert [format_size(size) for size in (0, 1, 1023, 1024, 1536 << 20, 8 << 30, float(2 << 40))] == [
        *("0", "1", "1023", "1K", "1536M", "8G", "2T")
    ]
    assert format_amount("mem", float(8 << 30)) == "mem=8G"
    assert format_amount("core", 8.0) == "core=8"
    assert format_limit("core", 8 << 30) == "core=8G"
    assert format_limit("cpu-time", 4096) == "cpu-time=4096"
    assert [format_number(number) for number in (1.0, 100.0, 0.5, 0.00001, 1e9)] == [
        *("1", "100", "0.5", "0.00001", "1000000000")
    ]


@pytest.mark.parametrize("value", ["many", None, True, [], float("nan"), float("inf"), 10**400])
def test_what_was_written_by_hand_can_still_be_shown(value: object) -> None:
    for write in (format_amount, format_limit):
        assert write("mem", value).startswith("mem=")


@given(st.floats(LEAST_AMOUNT, MOST_AMOUNT), st.integers(1, 1 << 62))
def test_what_is_written_reads_back_as_the_same(amount: float, size: int) -> None:
    assert parse_number(format_number(amount)) == amount
    assert parse_amount(format_amount("gpu", amount)) == ("gpu", amount)
    assert parse_size(format_size(size)) == size
    assert parse_limit([format_limit("mem", size)]) == {"mem": size}


def test_the_warden_knows_the_same_limits() -> None:
    assert dict(LIMITS) == dict(warden_limits.LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_the_warden_takes_whatever_may_be_written_unless_the_agent_itself_is_limited(name: str) -> None:
    try:
        warden_limits.rlimits({name: MOST[LIMITS[name]]})
    except warden_limits.LimitError as error:
        assert "more than this agent may give" in str(error)  # noqa: PT017 - either is right, by machine
