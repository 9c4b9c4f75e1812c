"""Write data to stdout and everything else to stderr, without escape sequences of foreign text."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import typer

from dcron.cli.output.colours import coloured
from dcron.errors import Refused
from dcron.values.safe_text import safe, safe_lines

MANY = 6
"""From this many things on, the user types their number to agree."""
LONGEST_LINE = 2_000
"""Most characters of a line of a message, which may quote what the user typed."""


@dataclass
class Consent:
    """What the command line says about changes: in which context, and whether the user agrees."""

    context: str | None = None
    """The name of the context that is in use, if any."""
    is_protected: bool = False
    yes: bool = False
    """Whether --yes answers the question, or --force."""
    confirmed: str | None = None
    """The name that --confirm gives."""
    dry_run: bool = False
    """Whether the verb only says what it would do."""

    @property
    def always_asks(self) -> bool:
        """Whether `agree` asks, or shows what would be done, for a verb that never asks elsewhere."""
        return self.is_protected or self.dry_run

    def is_given(self, *, asks: bool) -> bool:
        """Return whether the user has agreed beforehand, or need not. Raises Refused for a wrong name."""
        if self.confirmed is None:
            return not self.is_protected and (self.yes or not asks)
        if self.confirmed != self.context:
            here = f"this is the context {self.context}" if self.context else "no context is in use"
            raise Refused(f"--confirm {self.confirmed}: {here}; nothing was done")
        return True


consent = Consent()
form = "table"
"""What the verb prints: `output.wants_data` sets it."""
LINE_FORMS = ("jsonl", "csv", "name")
"""The forms that print each document on a line; the others print JSON that is indented."""


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
    """Print a JSON document in ASCII, which is safe on a terminal; or in the chosen form."""
    if form in LINE_FORMS:
        emit_list([value])
    else:
        drawn(json.dumps(value, indent=2))


def emit_line(value: Any) -> None:
    """Print a JSON object on one line, its kind first, and flush it, for readers that follow."""
    drawn(json.dumps({"type": value.kind, **value}))
    sys.stdout.flush()


def emit_list(values: Iterable[Any]) -> None:
    """Print documents one at a time, for there may be many: as a JSON array, or in the chosen form."""
    if form in LINE_FORMS:
        from dcron.cli.output.document_lines import lines

        for line in lines(values, form):
            drawn(line)
        return
    separator = "[\n"
    for value in values:
        sys.stdout.write(separator + json.dumps(value))
        separator = ",\n"
    drawn("[]" if separator == "[\n" else "\n]")


def emit_one_or_list(values: Sequence[Any], *, as_list: bool = False) -> None:
    """Print one value as a document unless `as_list`, and several as an array: what a verb did to names."""
    if len(values) == 1 and not as_list:
        emit(values[0])
    else:
        emit_list(values)


def emit_streaming(document: dict[str, Any], key: str, values: Iterable[Any]) -> None:
    """Print a JSON object whose array under `key` is empty in `document` and filled from `values`."""
    if form in LINE_FORMS:
        document[key] = list(values)
        emit_list([document])
        return
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


def agree(what: str, *, count: int = 1, asks: bool = True) -> None:
    """Return if the user agrees to `what` now; the default is no. The one question of a verb that writes.

    A verb that never `asks` does so in a protected context. About MANY things or more, the answer is their
    `count`; in a protected context it is the context's name. Raises Refused if the answer is no, or if there
    is no terminal to ask on, and Exit after a dry run.
    """
    if consent.dry_run:
        data(f"would {what}")
        data("nothing was changed")
        raise typer.Exit
    if consent.is_given(asks=asks):
        return
    name = consent.context if consent.is_protected else None
    if not is_attended():
        guarded = f"the context {name} is protected, and " if name else ""
        words = f"--confirm {name}" if name else "-y"
        raise Refused(f"{what}: nothing was done: {guarded}there is no terminal to ask on; add {words}")
    expected = name or (str(count) if count >= MANY else None)
    where = f"in {name}: " if name else ""
    sys.stderr.write(f"{where}{safe(what)}? {f'type {expected} to agree:' if expected else '[y/N]'} ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply.endswith("\n"):
        sys.stderr.write("\n")
    if reply.strip() != expected if expected else reply.strip().lower() not in ("y", "yes"):
        raise Refused("nothing was done")
