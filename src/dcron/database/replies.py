"""Statements whose results are read later, so that a round trip to Postgres carries several of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, CursorResult, Executable, Row
from sqlalchemy.engine.interfaces import ExecutionContext

if TYPE_CHECKING:
    from dcron.database.pipelining import PipelinedCursor

_OPTION = "dcron_reply"
_SEND = object()
"""Instead of a reply: send what is postponed."""


class Reply:
    """The result of a statement that was postponed. SQLite answers at once."""

    def __init__(
        self, connection: Connection, statement: Executable, parameters: Mapping[str, Any] | None
    ) -> None:
        """Postpone the statement."""
        self._context: Any = None
        self._connection = connection
        result = connection.execute(statement, parameters, execution_options={_OPTION: self})
        self._rows = None if self._context else _rows_of(result)

    def postponed(self, context: ExecutionContext) -> None:
        """Note that the statement of this context has been postponed."""
        self._context = context

    def rows(self) -> Sequence[Row[Any]]:
        """Return the rows. What is still postponed is sent now."""
        if self._rows is None:
            self._rows = _rows_of(self._fetched())
        return self._rows

    def _fetched(self) -> CursorResult[Any]:
        if self._context.cursor.is_postponed:
            # As a statement, so that SQLAlchemy handles an error like that of any statement.
            self._connection.exec_driver_sql("", execution_options={_OPTION: _SEND})
        # SQLAlchemy looked for a result when it "executed" the statement. Let it look again.
        result: CursorResult[Any] = self._context._setup_result_proxy()
        return result


def postpone(
    cursor: "PipelinedCursor", statement: str, parameters: Any, context: ExecutionContext
) -> bool | None:
    """Postpone a statement of a Reply; the driver executes all others (an event of SQLAlchemy's dialect)."""
    reply = context.execution_options.get(_OPTION)
    if reply is None:
        return None
    if reply is _SEND:
        cursor.connection.flush()
    else:
        cursor.postpone(statement, parameters)
        reply.postponed(context)
    return True


def _rows_of(result: CursorResult[Any]) -> Sequence[Row[Any]]:
    return result.all() if result.returns_rows else []
