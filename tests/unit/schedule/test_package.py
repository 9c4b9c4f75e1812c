"""What the package brings along, and what it does when threads share it."""

import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

import dcron.schedule
from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone

HEAVY = {"croniter", "dateutil", "icalendar", "sqlalchemy", "typer", "textual", "psycopg", "alembic"}


def loaded_by(script: str) -> set[str]:
    """The heavy modules that a fresh interpreter has loaded after running this."""
    code = f"{script}\nimport sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return HEAVY & {name.partition(".")[0] for name in shown.stdout.split()}


MODULES = [module.name for module in pkgutil.iter_modules(dcron.schedule.__path__)]
IMPORTS = (
    "from datetime import UTC, datetime\n"
    "from dcron.schedule.calendars import parse_calendar\n"
    "from dcron.schedule.explain import explain\n"
    "from dcron.schedule.next_run import next_run\n"
    "from dcron.schedule.parser import parse\n"
    "from dcron.schedule.zones import tzdata_fingerprint, zone\n"
)


def test_importing_and_reading_load_nothing_heavy() -> None:
    script = (
        f"import dcron.schedule.{', dcron.schedule.'.join(MODULES)}\n{IMPORTS}"
        "parse('0 9 * * *'); parse('RRULE:FREQ=DAILY'); zone('Europe/Berlin'); tzdata_fingerprint()\n"
        "explain(parse('0 9 * * *')); parse_calendar('x', ['12-25', 'RRULE:FREQ=YEARLY'])\n"
        "next_run(parse('@every 5m'), zone('UTC'), datetime.now(UTC))"
    )
    assert loaded_by(script) == set()


def test_only_what_is_enumerated_is_loaded() -> None:
    walk = "next_run(parse({!r}), zone('UTC'), datetime.now(UTC))"
    # croniter itself brings dateutil.
    assert loaded_by(IMPORTS + walk.format("0 9 * * *")) == {"croniter", "dateutil"}
    assert loaded_by(IMPORTS + walk.format("RRULE:FREQ=DAILY")) == {"dateutil"}


@pytest.mark.parametrize("text", ["17 3 * * *", "RRULE:FREQ=DAILY;BYHOUR=3;BYMINUTE=17"])
def test_threads_share_a_schedule(text: str) -> None:
    """A croniter keeps its position; two threads on one would give each other wrong times."""
    schedule, here = parse(text), zone("Europe/Berlin")
    starts = [datetime(2027, 1, 1, 12, tzinfo=UTC) + timedelta(days=day) for day in range(360)]
    alone = [next_run(schedule, here, start) for start in starts]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # else a step ends before another thread runs
    try:
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda start: next_run(schedule, here, start), starts * 4))
    finally:
        sys.setswitchinterval(usual)
    assert together == alone * 4
