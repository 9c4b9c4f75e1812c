"""A Postgres connection with a deadline for each reply.

The server's own time limits help only while the server runs. This connection also notices a frozen server
and a network that drops packets; on a Unix socket nothing else does.
"""

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class PatientConnection(psycopg.Connection[Any]):
    """Closes itself if a statement gets no reply within `answer` seconds: its outcome is then unknown."""

    answer = 45.0
    """Seconds without a reply; more than the server's own limit for a statement."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Wait like psycopg, with a deadline. Raises psycopg.OperationalError."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Wrap the generator with the deadline; psycopg wakes it ten times a second while nothing comes."""
        give_up = 0.0
        try:
            event = next(gen)
            while True:
                ready = yield event
                if not ready:
                    give_up = give_up or monotonic() + self.answer
                    if monotonic() >= give_up:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {self.answer:g} s")
                event = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result
