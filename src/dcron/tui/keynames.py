"""How keys are called on the screen: those in force, whatever the config file makes of them."""

import re
from collections.abc import Iterator, Sequence

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import format_key, key_to_character

from dcron.safetext import cells, safe

_NAMES = {
    "enter": "Enter",
    "escape": "Esc",
    "space": "Space",
    "tab": "Tab",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
}
"""Signs for them are missing in many fonts."""
_PLACE = re.compile(r"\{([a-z._-]+)\}")


def key_name(key: str) -> str:
    """`Esc`, `?`, `F5`; `ctrl+g`, as the config file has it."""
    if key[:1] == "f" and key[1:].isdecimal():
        return key.upper()
    return _NAMES.get(key) or (key if "+" in key else format_key(key))


def key_of(node: DOMNode, binding_id: str) -> str:
    """The name of the first key of one of the node's bindings, or of the app's, that is no text here."""
    remapped: str | None = node.app._keymap.get(binding_id)
    known = (binding.key for binding in _bindings(node) if binding.id == binding_id)
    keys = (remapped or next(known, "")).split(",")
    typed_on = node.app.focused
    free = (key for key in keys if not (typed_on and typed_on.check_consume_key(key, key_to_character(key))))
    return safe(key_name(next(free, keys[0])))


def told_keys(node: DOMNode, text: str) -> str:
    """A text in which `{log.follow}` stands for the key of that binding."""
    return _PLACE.sub(lambda place: key_of(node, place[1]), text)


def fitting(hints: Sequence[str], width: int) -> list[str]:
    """The hints that there is room for, from the first on; the last one always."""
    *others, last = hints
    kept, left = [], width - cells(last)
    for hint in others:
        left -= cells(hint)
        if left < 0:
            break
        kept.append(hint)
    return [*kept, last]


def _bindings(node: DOMNode) -> Iterator[Binding]:
    for each in (*type(node).__mro__, *type(node.app).__mro__):
        yield from (found for found in vars(each).get("BINDINGS", ()) if isinstance(found, Binding))
