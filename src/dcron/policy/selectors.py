"""Selectors: which labels a task must have to be chosen, as one text such as `team=shop,tier!=gold`."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dcron.errors import UsageError
from dcron.fields.collection_kinds import LABEL_KEY, LABEL_VALUE

MOST_PARTS = 20
MOST_VALUES = 100
LONGEST_SELECTOR = 2_000
FORMS = "team=shop, tier!=gold, app, !legacy, 'team in (a,b)' or 'team notin (a,b)'"
_COMMA = re.compile(r",(?![^()]*\))")
"""A comma that is not between parentheses."""
_HAS = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s=!(),]+)")
_IS = re.compile(r"(?P<key>[^\s=!(),]+)\s*(?P<is>==|=|!=)\s*(?P<value>[^\s=!(),]*)")
_IN = re.compile(r"(?P<key>[^\s=!(),]+)\s+(?P<is>in|notin)\s*\((?P<values>[^()]*)\)")


@dataclass(frozen=True)
class Requirement:
    """One part of a selector: the label with this key has one of these values, or not."""

    key: str
    values: tuple[str, ...] | None = None
    """None: any value."""
    negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet it. A task without the key meets every negated one."""
        found = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return found is not self.negated

    def __str__(self) -> str:
        if self.values is None:
            return f"{'!' if self.negated else ''}{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'!=' if self.negated else '='}{self.values[0]}"
        return f"{self.key} {'notin' if self.negated else 'in'} ({','.join(self.values)})"


@dataclass(frozen=True)
class Selector:
    """A choice of tasks by their labels. All parts must hold."""

    parts: tuple[Requirement, ...]

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Return the selector that a text means. Raises UsageError."""
        if len(text) > LONGEST_SELECTOR:
            raise UsageError(
                f"a selector of {len(text):,} characters; at most {LONGEST_SELECTOR:,} are allowed"
            )
        parts = tuple(dict.fromkeys(_part(part.strip()) for part in _COMMA.split(text)))
        if len(parts) > MOST_PARTS:
            raise UsageError(f"a selector of {len(parts)} parts; at most {MOST_PARTS} are allowed")
        return cls(parts)

    def matches(self, labels: Any) -> bool:
        """Return whether a task with these labels is chosen. Labels that cannot be read are none."""
        readable = labels if isinstance(labels, Mapping) else {}
        return all(part.matches(readable) for part in self.parts)

    def chooses(self, name: str, labels: Any) -> bool:
        """Return whether a task with this name and these labels is chosen."""
        return self.matches(labels)

    @property
    def typed(self) -> str:
        """What to type on the command line to choose the same tasks."""
        return f"-l {shlex.quote(str(self))}"

    @property
    def phrase(self) -> str:
        """The tasks, in a sentence."""
        return f"tasks with {self}"

    def __str__(self) -> str:
        return ",".join(map(str, self.parts))


@dataclass(frozen=True)
class NamedTasks(Selector):
    """A choice of tasks by names, and by patterns such as `shop-*`."""

    words: tuple[str, ...] = ()
    """What was typed."""
    ids: frozenset[int] = frozenset()
    """The ids of the tasks, and those of their trials, once they are looked up."""

    def chooses(self, name: str, labels: Any) -> bool:
        """Return whether a task of this name is chosen."""
        return any(fnmatchcase(name, word) for word in self.words)

    @property
    def typed(self) -> str:
        """What to type on the command line to choose the same tasks."""
        return shlex.join(self.words)

    @property
    def phrase(self) -> str:
        """The tasks, in a sentence."""
        return str(self)

    def __str__(self) -> str:
        return " ".join(self.words)


def is_pattern(name: str) -> bool:
    """Return whether a word is a pattern of names: no name has these characters."""
    return any(each in name for each in "*?[")


def _part(text: str) -> Requirement:
    if found := _HAS.fullmatch(text):
        return Requirement(_key(found["key"]), negated=bool(found["not"]))
    if found := _IS.fullmatch(text):
        return Requirement(_key(found["key"]), (_value(found["value"]),), negated=found["is"] == "!=")
    if found := _IN.fullmatch(text):
        values = tuple(sorted(set(_values(found["values"]))))
        return Requirement(_key(found["key"]), values, negated=found["is"] == "notin")
    raise UsageError(f"{text[:60]!r} is not a part of a selector; write {FORMS}")


def _key(text: str) -> str:
    if not LABEL_KEY.fullmatch(text):
        raise UsageError(
            f"{text[:60]!r} is not a label's key; use 1 to 40 of a-z 0-9 . _ - /, a letter first"
        )
    return text


def _value(text: str) -> str:
    if not LABEL_VALUE.fullmatch(text):
        raise UsageError(f"{text[:80]!r} is not a label's value; use up to 60 of A-Z a-z 0-9 . _ - /")
    return text


def _values(text: str) -> Iterator[str]:
    values = text.split(",")
    if len(values) > MOST_VALUES:
        raise UsageError(f"{len(values)} values between parentheses; at most {MOST_VALUES} are allowed")
    return (_value(value.strip()) for value in values)
