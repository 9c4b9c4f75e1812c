"""What Tab adds to a command or a filter: verbs, then names, as the verb takes them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from dcron.services.fleet import Fleet
from dcron.tui.commands import COMMANDS, SHORT
from dcron.tui.filters import words_of
from dcron.tui.theme import THEMES

if TYPE_CHECKING:
    from dcron.errors import DcronError
    from dcron.services.dashboard import Dashboard
    from dcron.tui.app import DcronApp

MOST = 200
"""Names that are asked for; more are too many to choose from."""


@dataclass(frozen=True)
class Completion:
    """What may stand in place of the last word."""

    word: str
    """As far as it was typed."""
    choices: Sequence[str]
    ends: str = " "
    """What follows the only choice."""


def completed(text: str, found: Completion) -> str:
    """Return the text with its last word completed as far as all choices agree."""
    before = text[: len(text) - len(found.word)]
    return before + (_common(found.choices) if found.choices else found.word) + _end(found)


def complete_command(app: "DcronApp", text: str, take: Callable[[Completion], None]) -> None:
    """Find what may follow the text on the command line, and hand it on; names are asked for."""
    verb, space, rest = text.lstrip().partition(" ")
    if not space:
        take(_among(verb, COMMANDS))
        return
    command = COMMANDS.get(SHORT.get(verb, verb))
    takes = command.takes if command else ""
    word = rest.lstrip()
    if " " in word:
        take(Completion("", ()))
    elif takes == "ORDER":
        take(_among(word, getattr(app.main.pane, "orders", ())))
    elif takes == "NAME":
        take(_among(word, THEMES))
    elif "TASK" in takes:
        _ask(app, word, lambda board: board.crontab.names(word, MOST), take)
    elif "NODE" in takes:
        _ask(app, word, _nodes, take)
    else:
        take(Completion(word, ()))


def complete_filter(
    app: "DcronApp", fields: Collection[str], text: str, take: Callable[[Completion], None]
) -> None:
    """Find what may follow the text of a filter: a field, a state, a node or a queue."""
    word = text.rpartition(" ")[2].removeprefix("!")
    field, colon, value = word.partition(":")
    if not colon:
        take(_among(word, words_of(fields), ends=""))
    elif field in ("node", "owner"):
        _ask(app, value, _nodes, take)
    elif field == "queue":
        _ask(app, value, lambda board: [each.name for each in Fleet(board.crontab).queues()], take)
    else:
        take(_among(value, words_of(fields, field)))


def _ask(
    app: "DcronApp",
    word: str,
    names: "Callable[[Dashboard], Sequence[str]]",
    take: Callable[[Completion], None],
) -> None:
    def refused(error: "DcronError") -> None:
        take(Completion(word, ()))
        app.complain(error)

    app.reader.ask(
        "completion",
        lambda board: _among(word, names(board)),
        take,
        refused,
        waits=False,
    )


def _nodes(board: "Dashboard") -> Sequence[str]:
    return [node.name for node in board.nodes()]


def _among(word: str, words: Collection[str], ends: str = " ") -> Completion:
    return Completion(word, sorted({each for each in words if each.startswith(word)}), ends)


def _common(words: Sequence[str]) -> str:
    """Return the beginning that all words have."""
    pairs = zip(min(words), max(words), strict=False)
    return "".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _end(found: Completion) -> str:
    return found.ends if len(found.choices) == 1 else ""
