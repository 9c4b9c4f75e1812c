"""A Postgres connection that does not wait for ever.

The server's own time limits help only while the server runs. One that is frozen, or a network that swallows
what is sent, is noticed here: on a Unix socket by nothing else.
"""

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class PatientConnection(psycopg.Connection[Any]):
    """Gives up a statement that gets no answer, and itself with it: what became of it nobody knows."""

    answer = 45.0
    """Seconds that the server may say nothing; more than its own limit for a statement."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """As psycopg's, with a deadline. Raises psycopg.OperationalError."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The same generator; psycopg wakes it ten times a second while nothing comes."""
        give_up = 0.0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready:
                    give_up = give_up or monotonic() + self.answer
                    if monotonic() >= give_up:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {self.answer:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result
