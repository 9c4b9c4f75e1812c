"""A lease that is renewed while a heartbeat waits for its statements raises no alarm about the clock."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from dcron.agent.lease import OtherLeases
from dcron.database import open_database
from dcron.schema.tables import nodes
from dcron.store.upkeep.steps import take_upkeep
from tests.support.databases import new_database
from tests.support.node import HandNode


def test_a_clock_that_was_read_before_the_leases_is_not_taken_for_set_back(
    postgres_server: str, postgres_template: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On SQLite a heartbeat is alone from its first statement on."""
    copy = new_database(postgres_server, tmp_path, postgres_template)
    with copy as url, closing(open_database(url)) as database:
        web = HandNode(database, "web", lease=4).register()
        with database.write() as connection:
            at = database.read_clock(connection)
            row = update(nodes).where(nodes.c.id == web.id)
            connection.execute(row.values(lease=4, alive_until=at + timedelta(seconds=4)))
        with database.read() as connection:
            before = at - timedelta(seconds=30)  # this heartbeat has waited for half a minute
            todo = take_upkeep(connection, database, "other", before, [], [])
        assert todo.read_at >= at
        assert OtherLeases(1.0).over(todo.leases, todo.read_at, 1000.0) == {}
        assert caplog.text == ""
