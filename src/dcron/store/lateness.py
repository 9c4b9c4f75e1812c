"""Late runs in queries: those that are late by `policy.conditions.lateness`."""

from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_

from dcron.policy.conditions.lateness import late_before
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.starting.lanes import MANUAL, TRIAL, Lane
from dcron.schema.tables import runs
from dcron.store import freezes


class Lateness:
    """When the runs that are late at one time were due. It reads the freezes when they are first needed."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        """`now` is the time of the database's clock."""
        self._connection = connection
        self.now = now

    @cached_property
    def frozen(self) -> FrozenTime:
        """When the crontab was, is and will be frozen."""
        return freezes.recent(self._connection, self.now)

    @cached_property
    def of_requested(self) -> datetime:
        """The time before which late runs were due that a person requested."""
        before = late_before(self.now, NEVER)
        assert before
        return before

    @cached_property
    def of_others(self) -> datetime | None:
        """The time before which late runs of other lanes were due; None while a freeze holds them back."""
        return late_before(self.now, self.frozen)

    def of_lane(self, lane: Lane) -> datetime | None:
        """Return the time before which late runs of this lane were due; None if none of them is late."""
        return self.of_requested if lane.is_requested else self.of_others

    def may_be(self, due_at: datetime) -> bool:
        """Return whether a run that was due then may be late. It reads no freezes."""
        return due_at < self.of_requested

    def frozen_for(self, lane: Lane) -> FrozenTime:
        """Return the times in which a freeze holds the runs of this lane back."""
        return NEVER if lane.is_requested else self.frozen


def is_requested(lane: Any = runs.c.lane) -> ColumnElement[bool]:
    """Return the condition that a person requested the run, as `Lane.is_requested` defines it."""
    return or_(*(lane.endswith(f" {word}") for word in (MANUAL, TRIAL)))
