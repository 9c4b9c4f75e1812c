"""Read the text of a policy file: TOML with known keys, whose values have the right form."""

import os.path
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

LONGEST = 1 << 20
"""Characters of a policy file."""
_PATTERNS = ("task", "label", "source")
_PATHS = ("program", "cwd")
_SWITCHES = ("shell", "stdin", "payload")
_KNOWN = ("accounts", "allow")
_KNOWN_IN_ENTRY = ("name", *_PATTERNS, "user", *_PATHS, "line", "env", *_SWITCHES)
_ACCOUNT = re.compile(r"[^\s*:/\x00-\x1f\x7f-]([^\s*:/\x00-\x1f\x7f]{0,63})")
_HEADER = re.compile(r"\s*\[\[\s*allow\s*\]\]\s*(#.*)?")
_OTHER_HEADER = re.compile(r"\s*\[\[?[^\[\]]+\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*["']?([A-Za-z_-]+)["']?\s*=""")


@dataclass(frozen=True)
class Problem:
    """What is wrong with a policy file."""

    text: str
    line: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True)
class Entry:
    """One `[[allow]]`: it allows a run that all of its keys allow. None: a key that is not given."""

    number: int
    line: int | None = None
    """Where it begins in the file."""
    name: str | None = None
    task: tuple[str, ...] | None = None
    label: tuple[str, ...] | None = None
    source: tuple[str, ...] | None = None
    user: tuple[str, ...] | None = None
    program: tuple[str, ...] | None = None
    """Absolute paths; one that ends in / stands for all that is below it."""
    lines: tuple[str, ...] | None = None
    """Exact shell lines, or argument lists as a shell would read them."""
    env: tuple[str, ...] | None = None
    cwd: tuple[str, ...] | None = None
    shell: bool = False
    """Whether it allows every shell line."""
    stdin: bool = False
    payload: bool = False

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line else f"entry {self.number}"
        return f'{where}, "{self.name}"' if self.name else where


@dataclass(frozen=True)
class Policy:
    """What a node accepts."""

    accounts: tuple[str, ...] = ("*",)
    """Names or numbers; `*` is every account but root."""
    allow: tuple[Entry, ...] = ()
    """A run needs one of them; without any, the accounts alone decide."""
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Where the keys above the entries are."""
    content: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the file has, as TOML gives it."""

    @cached_property
    def published(self) -> dict[str, Any]:
        """What other machines may know of it: all rules, with the lines of the entries."""
        return {**self.content, "lines": [entry.line for entry in self.allow]}


def read(text: str) -> Policy | list[Problem]:
    """Return the policy that a file's text says, or all that is wrong with it."""
    import tomllib  # few processes read a policy

    if len(text) > LONGEST:
        return [Problem(f"a policy has at most {LONGEST:,} characters")]
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        found = re.search(r"\(at line (\d+)", str(error))
        return [Problem(f"this is not TOML: {error}", int(found[1]) if found and found[1] != "1" else None)]
    return _policy(content, _Lines.of(text, content.get("allow")))


def from_published(published: Any) -> Policy | None:
    """Return the policy that a node has published; None for none, or for one that cannot be read."""
    if not isinstance(published, dict) or "lines" not in published:
        return None
    given = published.get("lines")
    lines = [each if isinstance(each, int) else None for each in given] if isinstance(given, list) else []
    content = {name: value for name, value in published.items() if name != "lines"}
    found = _policy(content, _Lines({}, lines, []))
    return found if isinstance(found, Policy) else None


@dataclass(frozen=True)
class _Lines:
    """The lines of a file's keys and entries."""

    keys: Mapping[str, int]
    entries: list[int | None]
    entry_keys: list[dict[str, int]]

    @classmethod
    def of(cls, text: str, allow: Any) -> "_Lines":
        """Find them. Where the headers and the entries are not of the same number, name no line."""
        keys: dict[str, int] = {}
        headers: list[int | None] = []
        entry_keys: list[dict[str, int]] = []
        inside = keys
        for number, line in enumerate(text.splitlines(), 1):
            if _HEADER.fullmatch(line):
                headers.append(number)
                entry_keys.append(inside := {})
            elif _OTHER_HEADER.fullmatch(line):
                inside = keys
                keys.setdefault(line.strip(" []\t").partition(".")[0], number)
            elif found := _KEY.match(line):
                inside.setdefault(found[1], number)
        entries = len(allow) if isinstance(allow, list) else 0
        if len(headers) != entries:
            return cls(keys, [None] * entries, [{} for _ in range(entries)])
        return cls(keys, headers, entry_keys)

    def of_entry(self, number: int) -> tuple[int | None, Mapping[str, int]]:
        """Return the line of an entry, counted from 1, and those of its keys."""
        line = self.entries[number - 1] if number <= len(self.entries) else None
        return line, self.entry_keys[number - 1] if number <= len(self.entry_keys) else {}


def _policy(content: Mapping[str, Any], lines: _Lines) -> Policy | list[Problem]:
    problems = list(_problems_above(content, lines.keys))
    entries = content.get("allow", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return [*problems, Problem("entries are sections of their own: [[allow]]", lines.keys.get("allow"))]
    for number, entry in enumerate(entries, 1):
        problems += _problems_of_entry(entry, *lines.of_entry(number))
    if problems:
        return problems
    return Policy(
        accounts=tuple(content.get("accounts", ("*",))),
        allow=tuple(_entry(entry, number, lines) for number, entry in enumerate(entries, 1)),
        lines=lines.keys,
        content=content,
    )


def _entry(content: Mapping[str, Any], number: int, lines: _Lines) -> Entry:
    return Entry(
        number,
        lines.of_entry(number)[0],
        content.get("name"),
        task=_tuple(content, "task"),
        label=_tuple(content, "label"),
        source=_tuple(content, "source"),
        user=_tuple(content, "user"),
        program=_tuple(content, "program"),
        lines=_tuple(content, "line"),
        env=_tuple(content, "env"),
        cwd=_tuple(content, "cwd"),
        shell=content.get("shell", False),
        stdin=content.get("stdin", False),
        payload=content.get("payload", False),
    )


def _tuple(content: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return tuple(content[name]) if name in content else None


def _problems_above(content: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Problem]:
    yield from _unknown(content, _KNOWN, lines)
    yield from _problems_of_list(content, "accounts", lines, _account_or_all)


def _problems_of_entry(
    content: Mapping[str, Any], line: int | None, lines: Mapping[str, int]
) -> Iterator[Problem]:
    for problem in _problems_of_keys(content, lines):
        yield problem if problem.line else Problem(problem.text, line)


def _problems_of_keys(content: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Problem]:
    yield from _unknown(content, _KNOWN_IN_ENTRY, lines)
    name = content.get("name", "entry")
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or '"' in name:
        yield Problem("name is a text in quotes, of letters that can be shown", lines.get("name"))
    for switch in _SWITCHES:
        if not isinstance(content.get(switch, False), bool):
            yield Problem(f"{switch} is true or false", lines.get(switch))
    for key in (*_PATTERNS, "env"):
        yield from _problems_of_list(
            content, key, lines, _label_problem if key == "label" else _pattern_problem
        )
    yield from _problems_of_list(content, "user", lines, _account_problem)
    yield from _problems_of_list(content, "line", lines, _text_problem)
    for key in _PATHS:
        yield from _problems_of_list(content, key, lines, _path_problem)
    if content.get("shell") is True and "program" in content:
        text = "shell = true allows every program: leave `program` out, or give the exact lines as `line`"
        yield Problem(text, lines.get("shell"))


def _unknown(
    content: Mapping[str, Any], known: tuple[str, ...], lines: Mapping[str, int]
) -> Iterator[Problem]:
    for name in content:
        if name not in known:
            yield Problem(f"unknown key {name!r}; known are {', '.join(sorted(known))}", lines.get(name))


def _problems_of_list(
    content: Mapping[str, Any], key: str, lines: Mapping[str, int], problem_of: Any
) -> Iterator[Problem]:
    if key not in content:
        return
    given = content[key]
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        yield Problem(f'{key} is a list of texts, such as {key} = ["…"]', lines.get(key))
    elif not given:
        yield Problem(
            f"{key} is an empty list, which allows nothing: leave it out, or fill it", lines.get(key)
        )
    else:
        found = (problem_of(each) for each in given)
        yield from (Problem(f"{key}: {text}", lines.get(key)) for text in found if text)


def _text_problem(text: str) -> str | None:
    return None if text.strip() and "\x00" not in text else "an empty text matches nothing"


def _pattern_problem(text: str) -> str | None:
    if any(each in text for each in "?["):
        return f"{text!r}: the only wildcard is *"
    return _text_problem(text)


def _label_problem(text: str) -> str | None:
    return _pattern_problem(text) if "=" in text else f"{text!r} is no label; write it as team=shop"


def _account_problem(text: str) -> str | None:
    return None if _ACCOUNT.fullmatch(text) else f"{text!r} is no name or number of an account"


def _account_or_all(text: str) -> str | None:
    return None if text == "*" else _account_problem(text)


def _path_problem(text: str) -> str | None:
    if not text.startswith("/") or "\x00" in text:
        return f"{text!r} is no absolute path"
    return None if is_plain(text.removesuffix("/") or "/") else f"{text!r} has . or .. or // in it"


def is_plain(path: str) -> bool:
    """Return whether this is an absolute path without `.`, `..` and empty parts."""
    return path.startswith("/") and not path.startswith("//") and os.path.normpath(path) == path
