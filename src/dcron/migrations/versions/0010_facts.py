"""Columns for why a run was skipped and which occurrences it covers. Until now only its reason had them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NO_SUCCESS = "state IN ('failed', 'lost', 'skipped', 'cancelled')"
"""The condition of the index `runs_unhappy`, word for word."""
GOES_THROUGH_RUNS = f"{NO_SUCCESS} AND state <> 'lost'"
BATCH = 5_000

FIRST_TIME, LAST_TIME = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
LAST_ID, LAST_COUNT = 2**63 - 1, 2**31 - 1

TIMESTAMP = sa.DateTime(timezone=True)
RUNS = sa.table(
    "runs",
    *(sa.column(name) for name in ("id", "state", "trigger", "flow", "reason", "skip_code")),
    *(sa.column(name, sa.BigInteger) for name in ("caused_by", "covers_count")),
    *(sa.column(name, TIMESTAMP) for name in ("covers_from", "covers_until")),
    sa.column("timed_out", sa.Boolean),
)

SKIPS = (
    ("overlap", re.compile("overlap: ")),
    ("missed", re.compile("missed: ")),
    ("expired", re.compile("expired")),
    ("paused", re.compile("paused")),
    ("ran-early", re.compile("it ran ahead of its time")),
    ("calendar", re.compile("(not )?on calendar |there is no calendar ")),
    ("suspended", re.compile("suspended: |what it should execute cannot be read")),
    ("removed", re.compile("no longer wanted: removed")),
    ("edited", re.compile("no longer wanted|replaced by an edit")),
    ("node-gone", re.compile("its node is gone")),
    ("called-off", re.compile(r"run \d+ had (succeeded|been cancelled) after all", re.ASCII)),
)
UPSTREAM = re.compile(r"\S+ (failed|was lost|was cancelled|was skipped) \(run (?P<run>\d+)\)", re.ASCII)
CAUSES = (
    UPSTREAM,
    re.compile(r"run (?P<run>\d+) had (succeeded|been cancelled) after all", re.ASCII),
    re.compile(r"it ran ahead of its time, as run (?P<run>\d+), while the clock was ahead", re.ASCII),
)
COVERS = re.compile(r"\((?:more than )?([\d,]+) occurrences, (\S+Z) to (\S+Z)\)$", re.ASCII)


def upgrade() -> None:
    """Add the columns, and fill them for finished runs of earlier versions."""
    names = ("skip_code", "caused_by", "covers_from", "covers_until", "covers_count", "timed_out")
    types: tuple[Any, ...] = (sa.Text, sa.BigInteger, TIMESTAMP, TIMESTAMP, sa.Integer, sa.Boolean)
    for name, kind in zip(names, types, strict=True):
        column: sa.Column[Any] = sa.Column(name, kind)
        op.add_column("runs", column)
    if op.get_bind().dialect.name == "postgresql":
        _limit_times()
    for state in ("skipped", "cancelled", "failed"):
        for batch in _batches(state):
            _fill(batch)


def _limit_times() -> None:
    """Reject times outside the range. NOT VALID: the columns are empty, so there is no row to check."""
    within = "BETWEEN '0001-01-03 00:00:00+00' AND '9999-12-30 00:00:00+00'"
    for name in ("covers_from", "covers_until"):
        op.execute(f"ALTER TABLE runs ADD CONSTRAINT runs_{name}_range CHECK ({name} {within}) NOT VALID")


def _batches(state: str) -> Iterator[list[Any]]:
    """Yield the runs of this state in batches, read by the index."""
    columns = (RUNS.c.id, RUNS.c.state, RUNS.c.trigger, RUNS.c.flow, RUNS.c.reason)
    of_state = sa.select(*columns).where(sa.text(NO_SUCCESS), RUNS.c.state == state)
    last = -(2**63)

    def following() -> list[Any]:
        query = of_state.where(RUNS.c.id > last).order_by(RUNS.c.id).limit(BATCH)
        return list(op.get_bind().execute(query))

    while rows := following():
        yield rows
        last = rows[-1].id


def _fill(rows: list[Any]) -> None:
    """Fill the columns of these runs with the facts in their reasons."""
    values = [{"run_id": row.id, **found} for row in rows if any((found := _facts(row)).values())]
    if values:
        given: dict[str, Any] = {name: sa.bindparam(name) for name in values[0] if name != "run_id"}
        update = sa.update(RUNS).where(RUNS.c.id == sa.bindparam("run_id")).values(given)
        op.get_bind().execute(update, values)


def _facts(row: Any) -> dict[str, Any]:
    """Return the facts in a run's reason."""
    reason = row.reason.decode(errors="replace") if isinstance(row.reason, bytes) else str(row.reason or "")
    if row.state == "failed":
        return {"timed_out": True} if reason.startswith("timeout") else {}
    is_skipped = row.state == "skipped"
    first, until, count = _covers(reason)
    return {
        "skip_code": _skip_code(row, reason) if is_skipped else None,
        "caused_by": _caused_by(reason) if is_skipped else None,
        "covers_from": first,
        "covers_until": until,
        "covers_count": count,
    }


def _skip_code(row: Any, reason: str) -> str:
    known = next((code for code, pattern in SKIPS if pattern.match(reason)), None)
    if known is None and row.trigger == "after" and row.flow is not None:
        return "upstream" if UPSTREAM.fullmatch(reason) else "flow-closed"
    return known or "skipped"


def _caused_by(reason: str) -> int | None:
    found = next((found for pattern in CAUSES if (found := pattern.fullmatch(reason))), None)
    return min(int(found["run"]), LAST_ID) if found else None


def _covers(reason: str) -> tuple[datetime | None, datetime | None, int | None]:
    """Return the first and last occurrence that a run covers, and how many there are."""
    found = COVERS.search(reason)
    if not found:
        return None, None, None
    try:
        first, until = datetime.fromisoformat(found[2]), datetime.fromisoformat(found[3])
        count = min(int(found[1].replace(",", "") or 0), LAST_COUNT)
    except ValueError:  # written by a person
        return None, None, None
    if count < 2 or not FIRST_TIME <= first <= until <= LAST_TIME:
        return None, None, None
    return first, until, count
