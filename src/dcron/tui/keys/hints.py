"""Keys and what they do, in colours: the last lines of screens and dialogs."""

import re
from collections.abc import Sequence

from textual.content import Content
from textual.dom import DOMNode

from dcron.tui.keys.keynames import fitting, with_keys
from dcron.values.safe_text import safe

KEY, LABEL = "bold $text-primary", "$foreground-muted"
"""The styles of a key and of what it does."""
ACTIVE = "bold reverse $primary on $on-primary"
"""The style of what is chosen: a tab, an answer. `reverse` stays where there are no colours."""
GAP = "  "
_HINT = re.compile(r"((?:\{[a-z._-]+\}[ /]?)+|\S+ ?)(.*)", re.DOTALL)
"""Keys of bindings such as `{log.previous} {log.next} `, or a word, and the label."""


def hints(node: DOMNode, *texts: str) -> Content:
    """Return hints such as `{dialog.leave} leaves`, with the keys of these bindings."""
    parts: list[tuple[str, str]] = []
    for text in texts:
        key, label = _HINT.fullmatch(text).groups()  # type: ignore[union-attr]  # every text matches
        parts += [
            (GAP if parts else "", ""),
            (safe(with_keys(node, key)), KEY),
            (safe(with_keys(node, label)), LABEL),
        ]
    return Content.assemble(*parts)


def fitting_hints(node: DOMNode, texts: Sequence[str], width: int) -> Content:
    """Return the first hints that fit in this width, and always the last one."""
    plain = {with_keys(node, text) + GAP: text for text in texts}
    return hints(node, *(plain[each] for each in fitting(list(plain), width + len(GAP))))
