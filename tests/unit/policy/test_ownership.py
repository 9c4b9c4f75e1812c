"""Whose a task is, and what applying a source does to it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dcron.model import Task
from dcron.policy.ownership import (
    Decision,
    InSource,
    Owner,
    Permissions,
    decide,
    digest,
    is_drifted,
    is_owned,
    owner_of,
)
from tests.support.definitions import definition, task
from tests.support.task_fields import EXAMPLES

NOTHING = Permissions()
ALL = Permissions(prune=True, overwrite=True, adopt=True, take_from="web/cron")
SAME, DIFFERENT, MISSING = InSource.SAME, InSource.DIFFERENT, InSource.MISSING


@pytest.mark.parametrize(
    ("owner", "drifted", "in_source", "allowed", "decision"),
    [
        (Owner.MISSING, False, DIFFERENT, NOTHING, Decision.ADD),
        (Owner.OURS, False, SAME, ALL, Decision.KEEP),
        (Owner.OURS, False, DIFFERENT, NOTHING, Decision.CHANGE),
        (Owner.OURS, False, MISSING, NOTHING, Decision.EXTRA),
        (Owner.OURS, False, MISSING, Permissions(prune=True), Decision.REMOVE),
        (Owner.OURS, True, SAME, NOTHING, Decision.NOTE),
        (Owner.OURS, True, DIFFERENT, NOTHING, Decision.CONFLICT),
        (Owner.OURS, True, DIFFERENT, replace(ALL, overwrite=False), Decision.CONFLICT),
        (Owner.OURS, True, DIFFERENT, Permissions(overwrite=True), Decision.CHANGE),
        (Owner.OURS, True, MISSING, NOTHING, Decision.EXTRA),
        (Owner.OURS, True, MISSING, Permissions(overwrite=True), Decision.EXTRA),
        (Owner.OURS, True, MISSING, Permissions(prune=True), Decision.CONFLICT),
        (Owner.OURS, True, MISSING, Permissions(prune=True, overwrite=True), Decision.REMOVE),
        (Owner.HANDED_OVER, False, SAME, NOTHING, Decision.ADOPT),
        (Owner.HANDED_OVER, False, DIFFERENT, NOTHING, Decision.ADOPT),
        (Owner.HANDED_OVER, True, SAME, NOTHING, Decision.ADOPT),
        (Owner.HANDED_OVER, True, DIFFERENT, NOTHING, Decision.CONFLICT),
        (Owner.HANDED_OVER, True, DIFFERENT, Permissions(overwrite=True), Decision.ADOPT),
        (Owner.HANDED_OVER, False, MISSING, ALL, Decision.LEAVE),
        (Owner.UNOWNED, False, SAME, NOTHING, Decision.REFUSE),
        (Owner.UNOWNED, False, DIFFERENT, replace(ALL, adopt=False), Decision.REFUSE),
        (Owner.UNOWNED, False, SAME, Permissions(adopt=True), Decision.ADOPT),
        (Owner.UNOWNED, False, DIFFERENT, Permissions(adopt=True), Decision.ADOPT),
        (Owner.UNOWNED, False, MISSING, ALL, Decision.LEAVE),
        (Owner.OTHERS, False, SAME, ALL, Decision.REFUSE),
        (Owner.OTHERS, True, DIFFERENT, ALL, Decision.REFUSE),
        (Owner.OTHERS, False, MISSING, ALL, Decision.LEAVE),
        (Owner.ONE_OFF, False, DIFFERENT, ALL, Decision.REFUSE),
        (Owner.ONE_OFF, False, MISSING, ALL, Decision.LEAVE),
    ],
)
def test_what_applying_does(
    owner: Owner, drifted: bool, in_source: InSource, allowed: Permissions, decision: Decision
) -> None:
    assert decide(owner, in_source, drifted=drifted, allowed=allowed) is decision


@pytest.mark.parametrize(
    ("columns", "owner"),
    [
        ({"source": "shop/cron"}, Owner.OURS),
        ({"source": "web/cron"}, Owner.HANDED_OVER),
        ({"source": "import:web-1:root:/etc/crontab"}, Owner.OTHERS),
        ({"source": None}, Owner.UNOWNED),
        ({"source": None, "once": True}, Owner.ONE_OFF),
    ],
)
def test_whose_a_task_is(columns: dict[str, Any], owner: Owner) -> None:
    assert owner_of(replace(task(), **columns), "shop/cron", ALL) is owner
    assert owner_of(None, "shop/cron", ALL) is Owner.MISSING


def applied(source: str | None = "shop/cron", **fields: Any) -> Task:
    return replace(task(**fields), source=source, applied=digest(definition(**fields)))


def test_a_task_drifts_when_its_definition_changes_and_not_when_it_is_paused() -> None:
    assert not is_drifted(applied())
    assert not is_drifted(replace(applied(), enabled=False, version=9, paused_reason="patching"))
    assert is_drifted(replace(applied(), timeout=60.0))
    assert is_drifted(replace(applied(), applied=None)), "the source was written with plain SQL"


def test_a_task_of_no_source_or_of_an_import_is_not_owned_and_cannot_drift() -> None:
    for source in (None, "import:web-1:root:/etc/crontab"):
        assert not is_owned(applied(source))
        assert not is_drifted(replace(applied(source), timeout=60.0))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_field_counts_in_a_digest(name: str) -> None:
    assert digest(definition()) != digest(replace(definition(), **{name: EXAMPLES[name]}))


def test_a_digest_does_not_depend_on_how_a_value_was_read() -> None:
    day = datetime(2027, 1, 1, tzinfo=UTC)
    read = definition(timeout=60.0, need={"mem": 2.0**30, "gpu": 1.5}, not_before=day, require=("a", "b"))
    again = definition(
        timeout=60,
        need={"gpu": 1.5, "mem": 2**30},
        not_before=day.astimezone(timezone(timedelta(hours=5))),
        require=["a", "b"],
    )
    assert digest(read) == digest(again)


def test_a_digest_stays_the_same_in_later_versions() -> None:
    """A changed digest would make every applied task a conflict: change the version of digests instead."""
    assert digest(definition(timeout=60.0, env={"A": "é"})) == "1:59d1457cfef0208364efbc5082845c29"
