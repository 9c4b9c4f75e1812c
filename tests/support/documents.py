"""Compare JSON with its description."""

import re
from collections.abc import Callable
from datetime import date
from typing import Any

from dcron.cli.output import documents
from dcron.cli.output.documents import Key

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""What jq's `fromdate` reads."""


def check(kind: str, found: Any, *, old: bool = True) -> None:
    """Require that this is a document of this kind: every key, no other, and the type of every value."""
    assert isinstance(found, dict), (kind, found)
    keys = documents.keys(kind)
    known = {key.name for key in keys} | {key.old for key in keys if old and key.old}
    assert not found.keys() - known, (kind, found.keys() - known)
    for key in keys:
        if key.name not in found:
            assert key.may_be_absent, (kind, key.name)
            continue
        if kind.startswith("task") and found["error"]:
            continue  # SQL may have written any value
        if old and key.old:
            assert found[key.old] == found[key.name], (kind, key)
        _check_value(kind, key, found[key.name], old=old)


def _check_value(kind: str, key: Key, value: Any, *, old: bool) -> None:
    where = (kind, key.name, value)
    if value is None:
        assert key.may_be_null or (key.type == "any" and key.many == "{}"), where
        return
    values: list[Any] = [value]
    if key.many:
        assert isinstance(value, list if key.many == "[]" else dict), where
        values = list(value.values()) if isinstance(value, dict) else list(value)
    for each in values:
        if key.type.startswith("@"):
            check(key.type[1:], each, old=old)
        else:
            assert _IS[key.type](each), where


def _is_date(value: str) -> bool:
    return str(date.fromisoformat(value)) == value


def _is_duration(value: float) -> bool:
    if isinstance(value, float):
        return not value.is_integer() and round(value, 3) == value
    return type(value) is int


_IS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "bool": lambda value: type(value) is bool,
    "text": lambda value: isinstance(value, str),
    "time": lambda value: bool(TIME.fullmatch(value)),
    "date": _is_date,
    "duration": _is_duration,
    "any": lambda value: True,
}
