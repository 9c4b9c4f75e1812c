"""Parse the fields of a cron expression strictly, into plain sets of numbers.

Names, ranges, lists and steps are those of Debian's cron, without what it accepts by accident: no range
that wraps around, no step without a range, no rest that is ignored.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from dcron.errors import ScheduleError

LAST = -1
"""In `Values.nth`: the last such weekday of the month."""


@dataclass(frozen=True)
class CronField:
    """One column of a cron expression."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)
    hash_high: int | None = None
    """Highest value that `H` picks; None for `high`."""

    @property
    def full(self) -> frozenset[int]:
        """Every value, with Sunday as 0 only."""
        return frozenset(range(self.low, self.high + 1)) - ({7} if self is WEEKDAY else frozenset())


MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

SECOND = CronField("second", 0, 59)
MINUTE = CronField("minute", 0, 59)
HOUR = CronField("hour", 0, 23)
DAY = CronField("day of month", 1, 31, hash_high=28)  # every month has the day that H picks
MONTH = CronField("month", 1, 12, {name: number for number, name in enumerate(MONTH_NAMES, 1)})
WEEKDAY = CronField("weekday", 0, 7, {name: number for number, name in enumerate(WEEKDAY_NAMES)}, hash_high=6)


@dataclass(frozen=True)
class Values:
    """What one field of a cron expression allows."""

    text: str
    numbers: frozenset[int] = frozenset()
    starred: bool = False
    """Whether the text begins with `*` (or is `H/n`, a `*/n` with another start)."""
    last: bool = False
    """`L`: the last day of the month."""
    workdays: frozenset[int] = frozenset()
    """`15W`: the day from Monday to Friday nearest to that day, in the same month. 31 means `LW`."""
    nth: frozenset[tuple[int, int]] = frozenset()
    """`1#2`: the second Monday; `5L`: the last Friday, as (5, LAST)."""

    @property
    def hashed(self) -> bool:
        """Whether the task's name decides (`H`, `~`)."""
        return re.search(r"~|\bH\b", self.text, re.ASCII | re.IGNORECASE) is not None

    @property
    def plain(self) -> bool:
        """Whether `numbers` is all of it."""
        return not (self.last or self.workdays or self.nth)


def read_field(which: CronField, text: str, column: int, key: str) -> Values:
    """Parse one field. `column` counts from 1; `key` is what `H` and `~` hash. Raises ScheduleError."""
    return _Reader(which, column, key).read(text)


_TERM = re.compile(r"(?P<base>[^/]*)(?:(?P<slash>/)(?P<step>.*))?", re.DOTALL)
_RANGE = re.compile(r"(?P<low>\w+)-(?P<high>\w+)", re.ASCII)
_PICK = re.compile(r"(?P<low>\w*)~(?P<high>\w*)", re.ASCII)
_HASH = re.compile(r"H(?:\((?P<low>\w+)-(?P<high>\w+)\))?", re.ASCII | re.IGNORECASE)
_WORKDAY = re.compile(r"(?P<day>\d+|L)W", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"(?P<weekday>\w+)#(?P<nth>\w+)", re.ASCII)
_LAST_WEEKDAY = re.compile(r"L(?P<after>\w+)|(?P<before>\w+)L", re.ASCII | re.IGNORECASE)


class _Reader:
    """Parses the terms of one field and collects what they allow."""

    def __init__(self, which: CronField, column: int, key: str) -> None:
        self.field = which
        self.column = column
        self.key = key
        self.numbers: set[int] = set()
        self.workdays: set[int] = set()
        self.nth: set[tuple[int, int]] = set()
        self.last = False

    def read(self, text: str) -> Values:
        for term in text.split(","):
            self._read_term(term)
            self.column += len(term) + 1
        if 7 in self.numbers and self.field is WEEKDAY:
            self.numbers = self.numbers - {7} | {0}
        starred = text.startswith("*") or re.match(r"H/", text, re.IGNORECASE) is not None
        return Values(
            text,
            frozenset(self.numbers),
            starred,
            self.last,
            frozenset(self.workdays),
            frozenset(self.nth),
        )

    def _read_term(self, term: str) -> None:
        if not term:
            self._fail("a value is missing; write for example " + self._example())
        if not self._read_special(term):
            self.numbers.update(self._read_numbers(term))

    def _read_special(self, term: str) -> bool:
        """Parse the forms that depend on the month: L, 15W, LW, 1#2, 5L."""
        if self.field is DAY:
            return self._read_special_day(term)
        return self.field is WEEKDAY and self._read_special_weekday(term)

    def _read_special_day(self, term: str) -> bool:
        if term.upper() == "L":
            self.last = True
            return True
        if match := _WORKDAY.fullmatch(term):
            last = match["day"].upper() == "L"
            self.workdays.add(DAY.high if last else self._number(match["day"]))
            return True
        return False

    def _read_special_weekday(self, term: str) -> bool:
        if match := _NTH.fullmatch(term):
            if match["nth"] not in ("1", "2", "3", "4", "5"):
                self._fail(f"{match['nth']} in {term} is not between 1 and 5")
            self.nth.add((self._number(match["weekday"]) % 7, int(match["nth"])))
            return True
        if match := _LAST_WEEKDAY.fullmatch(term):
            self.nth.add((self._number(match["after"] or match["before"]) % 7, LAST))
            return True
        return False

    def _read_numbers(self, term: str) -> Iterator[int]:
        match = _TERM.fullmatch(term)
        assert match is not None  # it matches anything
        base, step = match["base"], self._step(match["step"]) if match["slash"] else None
        if base == "*":
            return iter(range(self.field.low, self._top() + 1, step or 1))
        if hashed := _HASH.fullmatch(base):
            return self._hashed(hashed, step)
        if span := _RANGE.fullmatch(base):
            low, high = self._bounds(span["low"], span["high"])
            return iter(range(low, high + 1, step or 1))
        if pick := _PICK.fullmatch(base):
            return self._picked(pick, step)
        number = self._number(base)
        if step is not None:
            self._fail(
                f"{term} needs a range before the slash; write {base}-{self._top()}/{step} or */{step}"
            )
        return iter((number,))

    def _picked(self, match: re.Match[str], step: int | None) -> Iterator[int]:
        """`a~b` is one value within bounds; a missing bound is the field's."""
        if step is not None:
            offer = f"; write H/{step}" if match[0] == "~" else ""
            self._fail(f"{match[0]} picks one value, so it takes no step{offer}")
        low, high = self._picked_bounds(match)
        return iter((low + self._hash(high - low + 1),))

    def _hashed(self, match: re.Match[str], step: int | None) -> Iterator[int]:
        """`H` is one value of the field, `H/n` every n-th from some value on, `H(a-b)` one within bounds."""
        low, high = self._picked_bounds(match)
        if step is None:
            return iter((low + self._hash(high - low + 1),))
        if step > high - low + 1:
            self._fail(f"a step of {step} is more than the {high - low + 1} values from {low} to {high}")
        return iter(range(low + self._hash(step), high + 1, step))

    def _hash(self, size: int) -> int:
        """Return a number below `size` that depends on the task's name and the field only."""
        from hashlib import sha256  # it loads OpenSSL, and few schedules have an H

        digest = sha256(f"{self.field.name}:{self.key}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % size

    def _picked_bounds(self, match: re.Match[str]) -> tuple[int, int]:
        """Return the bounds within which one value is picked."""
        low = self._number(match["low"]) if match["low"] else self.field.low
        high = self._number(match["high"]) if match["high"] else self.field.hash_high or self.field.high
        if low > high:
            self._fail(
                f"{match[0]} runs backwards; what one value is picked from goes up, "
                f"as from {match['high']} to {match['low']}"
            )
        return low, high

    def _bounds(self, first: str, last: str) -> tuple[int, int]:
        low, high = self._number(first), self._number(last)
        if low > high:
            self._fail(
                f"{first}-{last} runs backwards; write the two parts with a comma between them: "
                f"{self._range_text(first, self._top())},{self._range_text(self.field.low, last)}"
            )
        return low, high

    def _range_text(self, low: str | int, high: str | int) -> str:
        """Return a range in numbers; a range of one value is that value."""
        first, last = (self._number(str(end)) for end in (low, high))
        return str(first) if first == last else f"{first}-{last}"

    def _step(self, text: str) -> int:
        if not _is_number(text) or int(text) == 0:
            self._fail(f"the step {text!r} is not a number from 1 up")
        return int(text)

    def _number(self, text: str) -> int:
        """Parse one value: a number or a name."""
        low, high = self.field.low, self.field.high
        if text.lower() in self.field.names:
            return self.field.names[text.lower()]
        if not _is_number(text):
            self._fail(f"{text!r} is not understood; {self._advice(text)}")
        if not low <= int(text) <= high:
            self._fail(f"{text} is not between {low} and {high}")
        return int(text)

    def _advice(self, text: str) -> str:
        if text == "?":
            return "write *"
        if text.upper() == "L" and self.field is DAY:
            return "L is the last day of the month; write it alone"
        if text.upper() == "L" and self.field is WEEKDAY:
            return "L is for the day of month; the last Friday is 5L"
        names = f" or {', '.join(self.field.names)}" if self.field.names else ""
        return f"write numbers from {self.field.low} to {self.field.high}{names}, as in {self._example()}"

    def _example(self) -> str:
        return "mon-fri" if self.field is WEEKDAY else f"*, {self.field.low}-{self._top()} or */2"

    def _top(self) -> int:
        """Return the highest value that is not a second name of a lower one."""
        return 6 if self.field is WEEKDAY else self.field.high

    def _fail(self, message: str) -> NoReturn:
        raise ScheduleError(f"{self.field.name}: {message} (column {self.column})")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
