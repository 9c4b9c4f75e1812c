"""Statements compiled once, for execution without SQLAlchemy's execution context.

The context takes longer than the driver and the server need for a small statement.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Dialect, Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement


class _Parameter(NamedTuple):
    name: str
    """In the text of the statement."""
    key: str
    """In the given values."""
    default: Any
    is_required: bool
    encode: Callable[[Any], Any] | None
    """None stands for a value that the driver takes as it is."""

    def value(self, given: Mapping[str, Any]) -> Any:
        value = given[self.key] if self.is_required else given.get(self.key, self.default)
        return value if self.encode is None else self.encode(value)


class CompiledStatement:
    """The text of a statement for the driver, and what makes the driver's parameters."""

    def __init__(self, compiled: SQLCompiler, dialect: Dialect) -> None:
        """Take a statement whose text does not depend on its parameters."""
        self.text = str(compiled)
        self._parameters = {
            name: _Parameter(
                name,
                bind.key,
                bind.value,
                bind.required,
                bind.type.dialect_impl(dialect).bind_processor(dialect),
            )
            for bind, name in compiled.bind_names.items()
        }
        self._in_order = [self._parameters[name] for name in compiled.positiontup or ()]
        self._is_positional = compiled.positional

    def parameters(self, given: Mapping[str, Any] | None) -> Sequence[Any] | Mapping[str, Any]:
        """Return what the driver gets with the text. Raises KeyError if a value is missing."""
        values = given or {}
        if self._is_positional:
            return tuple([each.value(values) for each in self._in_order])
        return {name: each.value(values) for name, each in self._parameters.items()}


@lru_cache(maxsize=200)
def compiled(statement: Executable, dialect: Dialect) -> CompiledStatement | None:
    """Return the compiled statement; None if its text or a value is new for each execution."""
    assert isinstance(statement, ClauseElement)
    found = statement.compile(dialect=dialect)
    assert isinstance(found, SQLCompiler)
    made_anew = found.post_compile_params or found.literal_execute_params or found.prefetch
    if made_anew or any(bind.callable or bind.expanding for bind in found.binds.values()):
        return None
    return CompiledStatement(found, dialect)
