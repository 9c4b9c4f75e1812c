"""What is written where: data to stdout, everything else to stderr, nothing that a terminal obeys."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from dcron.errors import Refused
from dcron.safetext import safe, safe_lines

LONGEST_LINE = 2_000
"""Characters of a message's line; what somebody typed may stand in it."""


def is_terminal() -> bool:
    """Whether a person reads stdout as it is written."""
    return sys.stdout.isatty()


def has_colour() -> bool:
    """Whether stdout is a terminal that may be coloured (no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def data(line: str = "") -> None:
    """A line of data, made inert here."""
    drawn(safe(line))


def drawn(line: str) -> None:
    """A line with our own colours. Foreign text in it has passed `safe` before."""
    sys.stdout.write(line + "\n")


def note(text: str) -> None:
    """Something for the person at the keyboard, made inert here; a line that nobody would read is cut."""
    lines = (line[:LONGEST_LINE] + ("…" if len(line) > LONGEST_LINE else "") for line in text.split("\n"))
    try:
        sys.stderr.write(safe_lines("\n".join(lines)) + "\n")
        sys.stderr.flush()
    except OSError:  # nobody is there to be told
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Let nothing more be written to a stream that cannot be: not even at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """An error or a warning, said as dcron's."""
    note(f"dcron: {text}")


def emit(value: Any) -> None:
    """One JSON document. Pure ASCII: what foreign text holds is escaped, so it is inert on a terminal."""
    drawn(json.dumps(value, indent=2))


def emit_line(value: Any) -> None:
    """One JSON object on a line of its own, at once: somebody follows."""
    drawn(json.dumps(value))
    sys.stdout.flush()


def emit_list(values: Iterable[Any]) -> None:
    """A JSON array, written while it is read: it may be long."""
    separator = "[\n"
    for value in values:
        sys.stdout.write(separator + json.dumps(value))
        separator = ",\n"
    drawn("[]" if separator == "[\n" else "\n]")


def emit_one_or_list(values: Sequence[Any]) -> None:
    """Print one value as a document of its own, several as an array: what a verb with names did to each."""
    if len(values) == 1:
        emit(values[0])
    else:
        emit_list(values)


def emit_streaming(document: dict[str, Any], key: str, values: Iterable[Any]) -> None:
    """A JSON object whose array under `key`, empty as it is given, is written while it is read."""
    before, after = json.dumps(document, indent=2).split(f'"{key}": []', 1)
    sys.stdout.write(f'{before}"{key}": [')
    separator = "\n"
    for value in values:
        sys.stdout.write(f"{separator}    {json.dumps(value)}")
        separator = ",\n"
    drawn(("]" if separator == "\n" else "\n  ]") + after)


def is_attended() -> bool:
    """Return whether a person can be asked and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_consent(what: str, *, force: bool) -> None:
    """Ask before something is destroyed; silence is No. Raises Refused, also where nobody can be asked."""
    if force:
        return
    if not is_attended():
        raise Refused(f"{what}: nobody is here to say yes; repeat it with --force")
    sys.stderr.write(f"{safe(what)}? [y/N] ")
    sys.stderr.flush()
    said = sys.stdin.readline()
    if not said.endswith("\n"):
        sys.stderr.write("\n")
    if said.strip().lower() not in ("y", "yes"):
        raise Refused("nothing was done")
