"""Suggest the word that was probably meant."""

from collections.abc import Iterable

_SIMILAR = 0.75
"""How similar two words have to be, from 0 to 1: `prevew` is `preview`, but `remove` is not `resume`."""


def did_you_mean(typed: str, words: Iterable[str] | None) -> str:
    """Return `; did you mean preview?`, or nothing if no word is similar enough."""
    from difflib import get_close_matches

    near = get_close_matches(typed, list(words or ()), n=1, cutoff=_SIMILAR)
    return f"; did you mean {near[0]}?" if near else ""
