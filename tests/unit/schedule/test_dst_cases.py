"""Recorded instants around clock changes, checked against Debian cron's own code (tzdata 2026f)."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dcron.schedule.cron_expression import Cron
from dcron.schedule.next_run import next_run, upcoming
from dcron.schedule.parser import parse
from dcron.schedule.zones import tzdata_version, zone

LINES = (Path(__file__).parents[2] / "data" / "dst_cases.jsonl").read_text().splitlines()
CASES: list[dict[str, Any]] = [json.loads(line) for line in LINES]

every_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['id']} {case['expr']} {case['zone']}"
)


def test_all_cases_are_there() -> None:
    assert len(CASES) == 304
    assert tzdata_version() >= "2026f"


@every_case
def test_next_run_steps_through_the_recorded_instants(case: dict[str, Any]) -> None:
    schedule, here = parse(case["expr"]), zone(case["zone"])
    instant = datetime.fromisoformat(case["start"])
    for expected in map(datetime.fromisoformat, case["expected"]):
        following = next_run(schedule, here, instant)
        assert following == expected
        halfway = instant + (expected - instant) / 2
        assert next_run(schedule, here, halfway) == expected
        assert next_run(schedule, here, expected - timedelta(microseconds=1)) == expected
        instant = expected


@every_case
def test_the_kind_is_read_off_the_text(case: dict[str, Any]) -> None:
    (form,) = parse(case["expr"]).forms
    assert isinstance(form, Cron)
    assert form.is_interval is (case["kind"] == "interval")


@every_case
def test_upcoming_yields_what_next_run_does(case: dict[str, Any]) -> None:
    start = datetime.fromisoformat(case["start"])
    occurrences = upcoming(parse(case["expr"]), zone(case["zone"]), start, count=case["n"])
    assert [occurrence.at for occurrence in occurrences] == list(
        map(datetime.fromisoformat, case["expected"])
    )
