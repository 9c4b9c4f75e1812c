"""Suggest the word that was probably meant."""

from collections.abc import Iterable

_CUTOFF = 0.6
"""How similar two words have to be, from 0 to 1."""
_LONGEST = 60
"""Characters of a typed word that are compared."""


def similar(typed: str, words: Iterable[str], *, cutoff: float = _CUTOFF, count: int = 1) -> list[str]:
    """Return the known words that are most like the typed one, the best first; none if none is like it."""
    from difflib import get_close_matches

    return get_close_matches(typed[:_LONGEST], list(words), n=count, cutoff=cutoff)


def did_you_mean(
    typed: str, words: Iterable[str], otherwise: str = "", *, cutoff: float = _CUTOFF, count: int = 1
) -> str:
    """Return `; did you mean NAME?`. If no word is similar, return `; ` and `otherwise`, or nothing."""
    near = similar(typed, words, cutoff=cutoff, count=count)
    meant = f"did you mean {' or '.join(near)}?" if near else otherwise
    return f"; {meant}" if meant else ""
