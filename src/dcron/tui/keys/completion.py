"""What Tab adds to a text on the prompt."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

MOST_NAMES = 200
"""Most names that are read; more are too many to choose from."""


@dataclass(frozen=True)
class Completion:
    """What may replace the last word."""

    word: str
    """The part of the word that was typed."""
    choices: Sequence[str]
    ends: str = " "
    """What follows if there is only one choice."""


def among(word: str, words: Collection[str], ends: str = " ") -> Completion:
    """Return those of the words that begin with `word`."""
    return Completion(word, sorted({each for each in words if each.startswith(word)}), ends)


def completed(text: str, found: Completion) -> str:
    """Return the text with its last word completed as far as all choices agree."""
    before = text[: len(text) - len(found.word)]
    end = found.ends if len(found.choices) == 1 else ""
    return before + (_common_prefix(found.choices) if found.choices else found.word) + end


def _common_prefix(words: Sequence[str]) -> str:
    pairs = zip(min(words), max(words), strict=False)
    return "".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
