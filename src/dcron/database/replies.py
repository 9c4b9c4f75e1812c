"""Statements whose results are read later, so that a round trip to Postgres carries several of them."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection, Executable
from sqlalchemy.engine.interfaces import ExecutionContext

from dcron.database.compiled import CompiledStatement, compiled
from dcron.database.decoding import decode

if TYPE_CHECKING:
    from dcron.database.pipelining import PipelinedCursor

_OPTION = "dcron_reply"


class Reply:
    """The result of a statement that was postponed. SQLite answers at once."""

    def __init__(
        self, connection: Connection, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> None:
        """Postpone the statement."""
        self._connection = connection
        self._statement = statement
        self._cursor: PipelinedCursor | None = None
        self._found: Sequence[Any] | None = None
        self._rows: list[Any] | None = None
        is_observed = bool(connection.dispatch.before_cursor_execute)
        ready = None if is_observed else compiled(statement, connection.dialect)
        if ready is None:
            self._execute(parameters)
        else:
            self._execute_compiled(ready, parameters)

    def _execute(self, parameters: Mapping[str, Any] | None) -> None:
        options = {_OPTION: self}
        result = self._connection.execute(self._statement, parameters, execution_options=options)
        if self._cursor is None:
            self._found = result.cursor.fetchall() if result.cursor else []
            result.close()

    def _execute_compiled(self, ready: CompiledStatement, parameters: Mapping[str, Any] | None) -> None:
        cursor: Any = self._connection.connection.cursor()
        values = ready.parameters(parameters)
        if not isinstance(cursor, sqlite3.Cursor):
            cursor.postpone(ready.text, values)
            self._cursor = cursor
            return
        try:
            self._found = cursor.execute(ready.text, values).fetchall()
        except BaseException as error:
            self._fail(error)
        finally:
            cursor.close()

    def postponed(self, cursor: "PipelinedCursor") -> None:
        """Note that the statement of this cursor has been postponed."""
        self._cursor = cursor

    def rows(self) -> list[Any]:
        """Return the rows as named tuples. What is still postponed is sent now."""
        if self._rows is None:
            found = self._fetched() if self._found is None else self._found
            self._rows = decode(self._statement, self._connection.dialect, found)
        return self._rows

    def _fetched(self) -> Sequence[Any]:
        assert self._cursor
        if self._cursor.is_postponed:
            try:
                self._cursor.connection.flush()
            except BaseException as error:
                self._fail(error)
        # `rownumber` is None without a result; `description` would describe each column.
        found = self._cursor.fetchall() if self._cursor.rownumber is not None else []
        self._cursor.close()
        return found

    def _fail(self, error: BaseException) -> NoReturn:
        """Raise the driver's error within a statement, so that SQLAlchemy handles it like that of any one."""
        self._connection.exec_driver_sql("", execution_options={_OPTION: error})
        raise error


def postpone(
    cursor: "PipelinedCursor", statement: str, parameters: Any, context: ExecutionContext
) -> bool | None:
    """Postpone a statement of a Reply; the driver executes all others (an event of SQLAlchemy's dialect)."""
    option = context.execution_options.get(_OPTION)
    if isinstance(option, BaseException):
        raise option
    if option is None or isinstance(cursor, sqlite3.Cursor):
        return None
    cursor.postpone(statement, parameters)
    option.postponed(cursor)
    return True
