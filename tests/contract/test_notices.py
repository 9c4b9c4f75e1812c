"""A flood of notices, which any role that may connect can send, wakes an agent a bounded number of times."""

import threading
import time

import psycopg
import pytest

from dcron.database import open_database
from dcron.database.change_watch import WAKE_CHANNEL
from tests.support.patience import PATIENCE, until

FLOOD = 2.0
"""Seconds."""


@pytest.mark.slow
def test_a_flood_of_notices_wakes_a_watch_ten_times_a_second_at_most(postgres_server: str) -> None:
    database = open_database(postgres_server)
    watch, stop, woken = database.watch(), threading.Event(), []
    sent = 0

    def keep_watching() -> None:
        while not stop.is_set():
            if watch.wait(stop):
                woken.append(time.monotonic())

    thread = threading.Thread(target=keep_watching)
    thread.start()
    with psycopg.connect(postgres_server, autocommit=True) as attacker:
        time.sleep(0.5)
        began = time.monotonic()
        while time.monotonic() < began + FLOOD:
            attacker.execute(f"NOTIFY {WAKE_CHANNEL}")
            sent += 1
        flooded, lasted = len(woken), time.monotonic() - began
        time.sleep(0.5)
        rested = len(woken)
        attacker.execute(f"NOTIFY {WAKE_CHANNEL}")
        until(lambda: len(woken) > rested)
        time.sleep(0.5)
    stop.set()
    thread.join(PATIENCE)
    watch.close()
    database.close()
    assert sent > 100
    assert 2 <= flooded <= 10 * (lasted + 0.5) + 2
    assert rested - flooded <= 2, "what was sent is not looked at once more, notice by notice"
    assert len(woken) == rested + 1, "a notice after a rest wakes once"
