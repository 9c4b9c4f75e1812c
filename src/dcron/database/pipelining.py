"""Send several statements to Postgres in one round trip.

A postponed statement waits on this side. It is sent in one pipeline with the next statement whose result is
needed, or with COMMIT. So BEGIN and the settings of a transaction cost no round trip, and the last statement
shares one with COMMIT. The server still executes one statement after the other, each with its own snapshot,
and skips the rest after an error. A COMMIT without a reply is in doubt, as it always is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from dcron.database.patience import PatientConnection


class _Postponed(NamedTuple):
    cursor: "PipelinedCursor"
    statement: Any
    parameters: Any
    on_reply: Callable[["PipelinedCursor"], None] | None


class PipelinedCursor(psycopg.Cursor[Any]):
    """Sends all postponed statements together with its own."""

    connection: "PipelinedConnection"

    def postpone(
        self,
        statement: str,
        parameters: Mapping[str, Any] | None = None,
        on_reply: Callable[["PipelinedCursor"], None] | None = None,
    ) -> None:
        """Send this with the next statement or with COMMIT; call `on_reply` when the result is here."""
        self.connection.postponed.append(_Postponed(self, statement, parameters, on_reply))

    def execute(self, query: Any, params: Any = None, **options: Any) -> "PipelinedCursor":
        """Execute like psycopg, after all that is postponed and in the same round trip."""
        if not self.connection.has_postponed:
            return super().execute(query, params, **options)
        self.postpone(query, params)
        self.connection.flush()
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        """Execute like psycopg, after all that is postponed and in the same round trip."""
        with self.connection.sending():
            super().executemany(query, params_seq, returning=returning)

    def send(self, statement: Any, parameters: Any) -> None:
        """Execute without what is postponed."""
        super().execute(statement, parameters)

    @property
    def is_postponed(self) -> bool:
        """Whether its statement is still to be sent."""
        return any(each.cursor is self for each in self.connection.postponed)

    def close(self) -> None:
        """Close the cursor, except while its statement is postponed: then its result is still to come."""
        if not self.is_postponed:
            super().close()


class PipelinedConnection(PatientConnection):
    """A connection in psycopg's autocommit mode: BEGIN, COMMIT and ROLLBACK are sent from here."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.cursor_factory = PipelinedCursor
        self.postponed: list[_Postponed] = []
        self._opening: list[_Postponed] = []
        self.shares_session = False
        """Whether a pooler may give each transaction another session."""
        self.is_committing = False
        """Whether COMMIT was sent and not answered."""

    @property
    def has_postponed(self) -> bool:
        """Whether statements wait to be sent."""
        return bool(self._opening or self.postponed)

    def begin(self, opening: Sequence[str], on_reply: Callable[[PipelinedCursor], None]) -> None:
        """Begin a transaction with these statements, sent with the first statement that follows.

        If none follows, they are not sent at all. `on_reply` gets the last one's result.
        """
        self.is_committing = False
        self._opening = [_Postponed(PipelinedCursor(self), each, None, None) for each in opening]
        self._opening[-1] = self._opening[-1]._replace(on_reply=on_reply)

    def flush(self) -> None:
        """Send all postponed statements in one round trip. Raises the error of the first that fails."""
        with self.sending():
            pass

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send all postponed statements, and those of the block, in one round trip."""
        sent = self._opening + self.postponed
        self._opening, self.postponed = [], []
        with self.pipeline() if sent else nullcontext():
            for each in sent:
                each.cursor.send(each.statement, each.parameters)
            yield
        for each in sent:
            if each.on_reply:
                each.on_reply(each.cursor)

    def commit(self) -> None:
        """Commit. COMMIT shares the round trip of the last postponed statements."""
        if self.postponed:
            self.is_committing = True
            PipelinedCursor(self).execute("COMMIT")
        else:
            self._opening = []
            self.is_committing = self.pgconn.transaction_status == TransactionStatus.INTRANS
            super().commit()
        self.is_committing = False

    def rollback(self) -> None:
        """Roll back. Postponed statements are not sent."""
        self._opening, self.postponed = [], []
        super().rollback()
