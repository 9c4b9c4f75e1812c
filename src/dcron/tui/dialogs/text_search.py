"""Search a text that a dialog shows."""

import re
from collections.abc import Iterable
from itertools import islice

from textual.content import Content

MOST_HITS = 1000


def hits(text: str, sought: str) -> list[tuple[int, int]]:
    """Return where the sought text is; case matters if it has capitals."""
    if not sought:
        return []
    pattern = re.compile(re.escape(sought), 0 if sought != sought.lower() else re.IGNORECASE)
    return [match.span() for match in islice(pattern.finditer(text), MOST_HITS)]


def with_hits(content: Content, sought: str) -> Content:
    """Return the content with the hits in reverse."""
    for start, end in hits(content.plain, sought):
        content = content.stylize("reverse", start, end)
    return content


def next_line(lines: Iterable[int], here: int, by: int) -> int | None:
    """Return the next of these lines after `here`, or before it if `by` is negative; the search wraps around.

    None if there are no lines.
    """
    ordered = sorted(set(lines), reverse=by < 0)
    return next((line for line in ordered if (line - here) * by > 0), next(iter(ordered), None))


def nothing_found(sought: str) -> str:
    """Return the message for a search without a hit."""
    return f"nothing matches {sought}" if sought else "no text was searched for"
