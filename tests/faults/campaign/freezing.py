"""Freezes of the crontab, while agents are killed."""

import time
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select

from dcron.model import Freeze
from dcron.policy.starting import lanes
from dcron.policy.starting.freezes import holds
from dcron.schema.tables import runs
from dcron.services.freezes import Freezes
from dcron.store import freezes
from tests.faults.campaign import ledger
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.processes import restart_some
from tests.faults.campaign.stage import Stage


@fault("freezes")
def freeze_crontab(stage: Stage) -> Figures:
    """Freezes of the crontab at random times, while agents are killed and restarted."""
    stage.begin()
    kills, service = 0, Freezes(stage.cluster.crontab)
    for _ in stage.pauses(0.2, 1.0):
        service.freeze(reason="campaign")
        time.sleep(stage.chance.uniform(0.0, 0.5))
        if agent := stage.some():
            agent.kill()
            kills += 1
        restart_some(stage)
        time.sleep(stage.chance.uniform(0.0, 2.0))
        service.thaw()
    stage.at_the_end.append(lambda: _require_no_starts(stage))
    return {"kills": kills, "freezes": len(service.listing(1000))}


def _require_no_starts(stage: Stage) -> None:
    """No run that nobody requested has a start, by the database's clock, while a freeze held."""
    with stage.cluster.database.read() as connection:
        frozen = freezes.newest(connection)
        columns = (runs.c.id, runs.c.task, runs.c.lane, runs.c.started_at)
        rows = {row.id: row for row in connection.execute(select(*columns))}
    begun = [entry for entry in ledger.read(stage.cluster.ledger_path) if entry.kind == "start"]
    for entry in begun:
        row = rows[entry.run_id]
        lane = lanes.read_lane(row.lane)
        if lane is None or not lane.is_requested:
            stage.require(
                not _is_frozen(frozen, row.started_at), f"run {row.id} of {row.task} started while frozen"
            )


def _is_frozen(frozen: Sequence[Freeze], at: datetime) -> bool:
    return any(holds(each, at) for each in frozen)
