"""Write data to stdout and everything else to stderr, without escape sequences of foreign text."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from dcron.cli.colours import coloured
from dcron.errors import Refused
from dcron.safetext import safe, safe_lines

MANY = 6
"""From this many things on, the user types their number to agree."""
LONGEST_LINE = 2_000
"""Most characters of a line of a message, which may quote what the user typed."""


@dataclass
class Consent:
    """The names by which the user agrees to changes in a protected context."""

    protected: str | None = None
    """The name of the protected context that is in use."""
    confirmed: str | None = None
    """The name that --confirm gives."""


consent = Consent()


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def data(line: str = "") -> None:
    """Print a line of data, made safe for terminals."""
    drawn(safe(line))


def drawn(line: str) -> None:
    """Print a line with our own colours. Foreign text in it must have passed `safe`."""
    sys.stdout.write(line + "\n")


def note(text: str) -> None:
    """Print a message on stderr, made safe for terminals, in the colour of its kind; long lines are cut."""
    lines = (line[:LONGEST_LINE] + ("…" if len(line) > LONGEST_LINE else "") for line in text.split("\n"))
    try:
        sys.stderr.write(coloured(safe_lines("\n".join(lines)), text, sys.stderr) + "\n")
        sys.stderr.flush()
    except OSError:  # the terminal is gone
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Discard further output to a broken stream, also when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """Print an error or a warning on stderr, after `dcron: `."""
    note(f"dcron: {text}")


def emit(value: Any) -> None:
    """Print a JSON document in ASCII, which is safe on a terminal."""
    drawn(json.dumps(value, indent=2))


def emit_line(value: Any) -> None:
    """Print a JSON object on one line and flush it, for readers that follow."""
    drawn(json.dumps(value))
    sys.stdout.flush()


def emit_list(values: Iterable[Any]) -> None:
    """Print a JSON array, one value at a time: it may be long."""
    separator = "[\n"
    for value in values:
        sys.stdout.write(separator + json.dumps(value))
        separator = ",\n"
    drawn("[]" if separator == "[\n" else "\n]")


def emit_one_or_list(values: Sequence[Any]) -> None:
    """Print one value as a document, and several as an array: the results of a verb that takes names."""
    if len(values) == 1:
        emit(values[0])
    else:
        emit_list(values)


def emit_streaming(document: dict[str, Any], key: str, values: Iterable[Any]) -> None:
    """Print a JSON object whose array under `key` is empty in `document` and filled from `values`."""
    before, after = json.dumps(document, indent=2).split(f'"{key}": []', 1)
    sys.stdout.write(f'{before}"{key}": [')
    separator = "\n"
    for value in values:
        sys.stdout.write(f"{separator}    {json.dumps(value)}")
        separator = ",\n"
    drawn(("]" if separator == "\n" else "\n  ]") + after)


def is_attended() -> bool:
    """Return whether a user can be asked on the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_consent(what: str, *, force: bool, count: int = 1) -> None:
    """Ask for confirmation; the default is no. Raises Refused if the answer is no or there is no terminal.

    About MANY things or more the answer is their `count`. In a protected context the answer is the context's
    name, and --force needs --confirm with that name.
    """
    name = consent.protected
    if force and (name is None or consent.confirmed == name):
        return
    if name and (force or not is_attended()):
        raise Refused(f"{what}: the context {name} is protected; repeat it with --force --confirm {name}")
    if not is_attended():
        raise Refused(f"{what}: there is no terminal to ask on; repeat it with --force")
    expected = name or (str(count) if count >= MANY else None)
    where = f" in {name}" if name else ""
    sys.stderr.write(f"{safe(what)}{where}? {f'type {expected} to agree:' if expected else '[y/N]'} ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply.endswith("\n"):
        sys.stderr.write("\n")
    if reply.strip() != expected if expected else reply.strip().lower() not in ("y", "yes"):
        raise Refused("nothing was done")
