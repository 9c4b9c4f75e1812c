"""The kinds of task fields that hold several values: tags, amounts, variables and words."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dcron.errors import UsageError
from dcron.fields.kinds import Kind, Problem, json_problem, required, short, text_problem
from dcron.values import json_values

MOST_TAGS = 20
LONGEST_TAG = 60
MOST_LABELS = 20
LABEL_KEY = re.compile(r"[a-z][a-z0-9_./-]{0,39}")
LABEL_VALUE = re.compile(r"[A-Za-z0-9_./-]{0,60}")
_TAG = re.compile(r"[A-Za-z0-9._-]+(?:=[A-Za-z0-9._-]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PAIR = re.compile(r"(?P<name>(?:[^=\\]++|\\.)*)=(?P<value>.*)", re.DOTALL)


class Tags(Kind):
    """Tags of nodes: `ssd`, `zone=eu-1`."""

    is_many = True
    _example = 'a list of tags such as ["ssd", "zone=eu-1"]'

    def parse_many(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the tags."""
        return tuple(texts)

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the tags with blanks between them."""
        return " ".join(map(str, value))

    def read(self, word: str | None) -> tuple[str, ...]:
        """Return the tags between the commas."""
        return self.parse_many(_split(word))

    def write(self, value: Any) -> str:
        """Return the tags with commas between them."""
        return ",".join(map(str, value))

    def to_json(self, value: Any) -> list[Any]:
        """Return the list."""
        return list(value)

    def from_json(self, value: Any) -> tuple[str, ...]:
        """Return the texts of a list."""
        return _texts(value, self._example)

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with the first bad tag."""
        problem = json_problem(value, self._example)
        if problem is None and len(value) > MOST_TAGS:
            return f"{len(value)} tags are too many; at most {MOST_TAGS} are allowed"
        return problem or next(filter(None, map(_tag_problem, value)), None) or _repeated(value)


class Amounts(Kind):
    """Numbers by name: `gpu=1`, `mem=8G`."""

    is_many = True
    is_by_name = True

    def __init__(
        self,
        parse: Callable[[Iterable[str]], Mapping[str, Any]],
        format_one: Callable[[str, Any], str],
        require: Callable[[str, Any], None],
        *,
        example: str,
        most: int | None = None,
    ) -> None:
        """Read, write and check each of them by these functions; `example` is valid JSON for messages."""
        self._parse, self._format_one, self._require = parse, format_one, require
        self._example, self._most = example, most

    def parse_many(self, texts: Iterable[str]) -> Mapping[str, Any]:
        """Return the numbers by name."""
        return self._parse(texts)

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the pairs with blanks between them."""
        return " ".join(self._format_one(name, amount) for name, amount in value.items())

    def read(self, word: str | None) -> Mapping[str, Any]:
        """Return the pairs between the commas."""
        return self._parse(_split(word))

    def write(self, value: Any) -> str:
        """Return the pairs with commas between them."""
        return ",".join(self._format_one(name, amount) for name, amount in value.items())

    def to_json(self, value: Any) -> dict[str, Any]:
        """Return numbers by name, in seconds and bytes."""
        return json_values.numbers(value)

    def to_toml(self, value: Any) -> dict[str, Any]:
        """Return the values by name; sizes and durations as people type them."""
        return {name: self._value_in_toml(name, amount) for name, amount in value.items()}

    def from_json(self, value: Any) -> Mapping[str, Any]:
        """Return the numbers by name, also of texts such as `8G`."""
        if not isinstance(value, dict):
            raise UsageError(f"{json_values.shown(value)} is not names and numbers such as {self._example}")
        found: dict[str, Any] = {}
        for name, amount in value.items():
            if not isinstance(amount, str):
                self._require(name, amount)
            text = f"{name}={amount}" if isinstance(amount, str) else self._format_one(name, amount)
            found |= self._parse([text])
        return found

    def _value_in_toml(self, name: str, amount: Any) -> Any:
        text = self._format_one(name, amount).removeprefix(f"{name}=")
        return json_values.number(amount) if text[-1:].isdigit() else text

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with the first bad pair."""
        problem = json_problem(value, f"names and numbers such as {self._example}")
        if problem is None and self._most is not None and len(value) > self._most:
            return f"{len(value)} names are too many; at most {self._most} are allowed"
        try:
            for name, amount in value.items():
                self._require(name, amount)
        except UsageError as error:
            return str(error)
        return problem


class Labels(Kind):
    """Words by name, without blanks: `team=shop`. Commas may separate them, too."""

    is_many = True
    is_by_name = True
    _example = 'keys and values such as {"team": "shop"}'

    def parse_many(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the values by key. Raises UsageError for a key that is given twice."""
        labels: dict[str, str] = {}
        for text in ",".join(texts).split(","):
            key, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"{text[:60]!r} is not a label; write KEY=VALUE such as team=shop")
            if key in labels:
                raise UsageError(f"{key} is given twice; give it once")
            labels[key] = value
        return labels

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the pairs with blanks between them."""
        return " ".join(f"{key}={text}" for key, text in value.items())

    def read(self, word: str | None) -> dict[str, str]:
        """Return the pairs between the commas."""
        return self.parse_many(_split(word))

    def write(self, value: Any) -> str:
        """Return the pairs with commas between them."""
        return ",".join(f"{key}={text}" for key, text in value.items())

    def to_json(self, value: Any) -> dict[str, str]:
        """Return the values by key."""
        return dict(value)

    def from_json(self, value: Any) -> dict[str, str]:
        """Return texts by key."""
        return _texts_by_name(value, self._example)

    def problem(self, value: Any) -> Problem:
        """Return what is wrong with the first bad label."""
        problem = json_problem(value, self._example)
        if problem is None and len(value) > MOST_LABELS:
            return f"{len(value)} labels are too many; at most {MOST_LABELS} are allowed"
        return problem or next(filter(None, (_label_problem(*pair) for pair in value.items())), None)


class Variables(Kind):
    """Environment variables. A directive has one word for each, and `read` and `write` take one pair."""

    is_many = True
    is_by_name = True
    keeps_blanks = True
    _example = 'names and values such as {"LANG": "C"}'

    def __init__(self, *, most_bytes: int) -> None:
        """Refuse a `NAME=value` of more bytes."""
        self._most_bytes = most_bytes

    def parse_many(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the values by name; of two with one name the second counts."""
        return dict(map(_variable, texts))

    def format(self, value: Any, timezone: str = "UTC") -> str:
        """Return the pairs, quoted as for a shell."""
        return shlex.join(f"{name}={text}" for name, text in value.items())

    def split(self, text: str) -> list[str]:
        """Return the words as a shell finds them."""
        try:
            return shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{str(error).lower()}; put a value with spaces in quotes") from None

    def read(self, word: str | None) -> tuple[str, str]:
        """Return one name and its value."""
        pair = _PAIR.fullmatch(required(word))
        if pair is None:
            raise UsageError("an environment variable is written env=NAME=value")
        return re.sub(r"\\(.)", r"\1", pair["name"], flags=re.DOTALL), pair["value"]

    def write(self, value: Any) -> str:
        """Return the word of one name and its value."""
        name, text = value
        return re.sub(r"[=\\]", r"\\\g<0>", name) + "=" + str(text)

    def to_json(self, value: Any) -> dict[str, str]:
        """Return the values by name."""
        return dict(value)

    def from_json(self, value: Any) -> dict[str, str]:
        """Return texts by name."""
        return _texts_by_name(value, self._example)

    def problem(self, value: Any) -> Problem:
        """Return what keeps a command from getting the first bad variable."""
        problem = json_problem(value, self._example)
        return problem or next(filter(None, (self._pair_problem(*pair) for pair in value.items())), None)

    def _pair_problem(self, name: str, value: Any) -> Problem:
        if not name or "=" in name or "\0" in name:
            return f"{name!r} cannot name a variable; write NAME=value"
        if len(f"{name}={value}".encode(errors="replace")) > self._most_bytes:
            return f"{short(name)} has more than {self._most_bytes:,} bytes, with its name"
        problem = text_problem(name) or text_problem(value)
        return f"{name!r}: {problem}" if problem else None


class Words(Kind):
    """The words of a command that runs without a shell."""

    _example = 'a list of words such as ["ls", "-l"]'

    def read(self, word: str | None) -> tuple[str, ...]:
        """Return the words as a shell finds them."""
        try:
            return tuple(shlex.split(required(word)))
        except ValueError as error:
            raise UsageError(str(error).lower()) from None

    def write(self, value: Any) -> str:
        """Return the words, quoted as for a shell."""
        return shlex.join(value)

    def to_json(self, value: Any) -> list[str] | None:
        """Return the list, or None for a command that a shell runs."""
        return None if value is None else list(value)

    def from_json(self, value: Any) -> tuple[str, ...]:
        """Return the words of a list."""
        return _texts(value, self._example)

    def problem(self, value: Any) -> Problem:
        """Return what keeps the first bad word from being executed."""
        problem = json_problem(value, self._example)
        for position, word in enumerate(value or ()):
            if word_problem := text_problem(word):
                return f"word {position}: {word_problem}"
        return problem


def _tag_problem(tag: Any) -> Problem:
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        return (
            f"{short(tag)} is not a tag; write a word such as ssd, or two such as zone=eu-1,"
            " of A-Z a-z 0-9 . _ -"
        )
    return f"{short(tag)} has more than {LONGEST_TAG} characters" if len(tag) > LONGEST_TAG else None


def _label_problem(key: Any, value: Any) -> Problem:
    if not isinstance(key, str) or not LABEL_KEY.fullmatch(key):
        return f"{short(key)} is not a label's key; use 1 to 40 of a-z 0-9 . _ - /, a letter first"
    if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value):
        return f"{key}: {short(value)} is not a label's value; use up to 60 of A-Z a-z 0-9 . _ - /"
    return None


def _repeated(tags: Sequence[str]) -> Problem:
    twice = next((tag for position, tag in enumerate(tags) if tag in tags[:position]), None)
    return f"{twice} is given twice; give it once" if twice is not None else None


def _texts(value: Any, example: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple. Raises UsageError."""
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise UsageError(f"{json_values.shown(value)} is not {example}")


def _texts_by_name(value: Any, example: str) -> dict[str, str]:
    """Return the texts of an object. Raises UsageError."""
    if not isinstance(value, dict):
        raise UsageError(f"{json_values.shown(value)} is not {example}")
    for name, text in value.items():
        if not isinstance(text, str):
            shown = json_values.shown(text)
            raise UsageError(f"{short(name)}: {shown} is not a text; write it in double quotes")
    return dict(value)


def _split(word: str | None) -> list[str]:
    return required(word).split(",") if word != "" else []


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text[:60]!r}: write NAME=value")
    if not _VARIABLE.fullmatch(name):
        raise UsageError(
            f"{name[:60]!r}: no shell reads a variable of this name; begin it with a letter or _"
        )
    return name, value
