"""The health of a connection is read in one thread while another changes it."""

import sys
import threading

import pytest

from dcron.errors import DatabaseError
from dcron.tui.reads.health import Health


class Fading(Health):
    """A health whose fields the other thread empties right after each first look."""

    def __getattribute__(self, name: str) -> object:
        value = super().__getattribute__(name)
        if name in ("asked_at", "lost_at", "heard_at"):
            object.__setattr__(self, name, None)
        return value


@pytest.mark.parametrize("field", ["asked_at", "lost_at", "heard_at"])
def test_an_answer_between_two_looks_is_no_error(field: str) -> None:
    for reading in (Health.summary, lambda health: health.is_old):
        health = Fading()
        setattr(health, field, 1.0)
        reading(health)


def test_readings_beside_a_busy_thread() -> None:
    health, ended = Health(), threading.Event()

    def change() -> None:
        while not ended.is_set():
            health.asked_at = 1.0
            health.failed(DatabaseError("gone"))
            health.asked_at = None
            health.heard()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        texts = {health.summary()[0] for _ in range(30_000)}
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)
    assert texts <= {"x", "~", "*"}
