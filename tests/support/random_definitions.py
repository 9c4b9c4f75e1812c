"""A hypothesis strategy for definitions, with texts that are hard to write down."""

import shlex
from typing import Any

from hypothesis import strategies as st

from dcron.model import Definition
from dcron.values.quantities import LEAST_AMOUNT, MOST_AMOUNT

SCHEDULES = [
    "0 5 * * *",
    "*/5 8-18 * * mon-fri",
    "0  5 * * *",
    "0\t5 * * *",
    "0 0 l * *",
    "*/10 * * * * *",
    "@daily",
    "@DAILY",
    "@reboot",
    "@every 90s",
    "@delay 5m",
    "@at 2030-01-01T09:00",
    "@on deploy",
    "@after a,b",
    "H 3 * * *",
    "0 9 * * mon | 30 17 * * fri",
    "RRULE:FREQ=DAILY;BYHOUR=9",
]
ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=()))
NASTY = st.text(st.sampled_from("\\%\"'=#\n\r\t $-_aB1:@*\x1b\x85\u2028\u202e\ud800é{}\ufeff"))
TEXT = ANY | NASTY
COMMANDS = TEXT | st.sampled_from(["cmd", "a b", "date +%F", "x\\", "root x", "0 5 * * * x"])
DESCRIPTIONS = TEXT | st.sampled_from(["ok", "a\nb", "0 5 * * * x", "dcron: x", "PATH=/bin", "----"])
VARIABLES = TEXT | st.sampled_from(["PATH", "HOME", "SHELL", "CRON_TZ", "MAILTO", "A=B", "TZ"])
SECONDS = st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)
TAGS = st.from_regex(r"[A-Za-z0-9._-]{1,9}(=[A-Za-z0-9._-]{1,9})?", fullmatch=True)
AMOUNTS = st.floats(LEAST_AMOUNT, MOST_AMOUNT)
SIZES = st.integers(1, 1 << 53) | st.integers(1, 999).map(lambda gigabytes: gigabytes << 30)
POLICIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "overlap": st.sampled_from(["skip", "queue", "replace"]),
        "tries": st.integers(1, 1000),
        "backoff": st.just(0.0) | SECONDS,
        "backoff_factor": st.floats(1, 1000),
        "backoff_max": st.just(0.0) | SECONDS,
        "on_lost": st.sampled_from(["dead", "retry"]),
        "deadline": st.none() | SECONDS,
        "catch_up": st.sampled_from(["skip", "last", "all"]),
        "catch_up_window": st.none() | SECONDS,
        "jitter": st.none() | st.integers(1, 86_400_000).map(lambda milliseconds: milliseconds / 1000),
        "priority": st.sampled_from(["high", "normal", "low"]),
        "queue": st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True),
        "require": st.lists(TAGS, max_size=3, unique=True).map(tuple),
        "every_node": st.booleans(),
        "need": st.fixed_dictionaries({}, optional={"gpu": AMOUNTS, "mem": SIZES.map(float)}),
        "limit": st.fixed_dictionaries(
            {}, optional={"mem": SIZES, "cpu-time": SIZES.map(lambda s: s % 99 + 1)}
        ),
    },
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Return any definition that a crontab file can have."""
    argv = draw(st.none() | st.lists(TEXT, max_size=3).map(tuple))
    honest = argv is not None and draw(st.booleans())
    return Definition(
        name=draw(st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True)),
        schedule=draw(st.sampled_from(SCHEDULES)),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]) | TEXT),
        command=shlex.join(argv) if honest and argv is not None else draw(COMMANDS),
        argv=argv,
        shell=draw(st.sampled_from(["/bin/sh", "/bin/bash"]) | TEXT),
        stdin=draw(st.none() | TEXT | TEXT.map(lambda text: f"{text}\n")),
        env=draw(st.dictionaries(VARIABLES, TEXT, max_size=4)),
        cwd=draw(st.none() | TEXT),
        user=draw(st.none() | st.sampled_from(["root", "www-data"]) | TEXT),
        timeout=draw(st.none() | st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)),
        max_running=draw(st.none() | st.integers(1, 99)),
        describe=draw(st.none() | DESCRIPTIONS),
        **draw(POLICIES),
    )
