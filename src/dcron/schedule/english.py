"""Write numbers and lists in English, for `explain`."""

from collections.abc import Iterable, Sequence

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = {-1: "last", 1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}


def join(words: Sequence[str], last: str = "and") -> str:
    """Return `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges of neighbours: 1 2 3 7 gives (1, 3) (7, 7)."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def stretches(numbers: Iterable[int], names: Sequence[str] | None = None) -> list[str]:
    """Return `1 to 5`, `Monday to Friday`: three neighbours or more with `to`, others singly."""
    words = []
    for low, high in runs(numbers):
        first, last = (names[low], names[high]) if names else (str(low), str(high))
        if high - low > 1:
            words.append(f"{first} to {last}")
        else:
            words += [first] if low == high else [first, last]
    return words


def nth(number: int) -> str:
    """Return `second`, `last`, `third to last`, `21st`."""
    if number in _NTH:
        return _NTH[number]
    return ordinal(number) if number > 0 else f"{nth(-number)} to last"


def ordinal(number: int) -> str:
    """Return `1st`, `22nd`, `13th`."""
    suffix = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def count(number: int, unit: str) -> str:
    """Return `1 hour`, `5 minutes`."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def every(number: int, unit: str) -> str:
    """Return `every hour`, `every 5 minutes`."""
    return f"every {unit}" if number == 1 else f"every {number} {unit}s"


def duration(seconds: float) -> str:
    """Return `1 hour 30 minutes`."""
    if seconds != int(seconds):
        return f"{seconds:g} seconds"
    rest, words = int(seconds), []
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, rest = divmod(rest, size)
        if number:
            words.append(count(number, unit))
    return " ".join(words) or "0 seconds"
