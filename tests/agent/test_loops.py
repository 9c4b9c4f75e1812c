"""How a loop of the agent waits for its database."""

import logging
from types import SimpleNamespace

import pytest

from dcron.agent import loops
from dcron.errors import DatabaseError


def test_a_loop_waits_for_its_database(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at = 100.0
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: at))
    outage = loops.Outage("start", longest_pause=5.0, patience=5.0)
    with caplog.at_level(logging.WARNING, "dcron.agent"):
        while outage.left:
            at += outage.failed(DatabaseError("away"))
    assert at == pytest.approx(105.0)
    assert [record.getMessage() for record in caplog.records] == ["start: away; trying again for 5s"]
