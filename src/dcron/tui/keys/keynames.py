"""Names of keys on the screen: the keys in use, as the config file may have changed them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode
from textual.keys import format_key, key_to_character
from textual.screen import Screen

from dcron.values.safe_text import cells, safe

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
"""Words, as many fonts lack the symbols."""
CHANGES = frozenset(
    f"{room}.{act}"
    for room, acts in {
        "tasks": ("new", "edit", "edit_text", "run", "run_with", "pause", "cancel", "delete"),
        "runs": ("cancel", "retry", "dismiss"),
        "dead": ("retry", "dismiss", "dismiss_all", "retry_task", "dismiss_task", "dismiss_shown"),
        "nodes": ("drain", "undrain"),
        "alerts": ("acknowledge",),
        "form": ("save",),
    }.items()
    for act in acts
)
"""The bindings that change something: a read-only screen does not show them."""
_PLACEHOLDER = re.compile(r"\{([a-z._-]+)\}")


def key_name(key: str) -> str:
    """Return the name of a key: `Esc`, `?`, `F5`, `ctrl+g`."""
    if key[:1] == "f" and key[1:].isdecimal():
        return key.upper()
    return _NAMES.get(key) or (key if "+" in key else format_key(key))


def key_of(node: DOMNode, binding_id: str) -> str:
    """Return the first key of a binding of the node or the app that the focused input does not type."""
    remapped: str | None = node.app._keymap.get(binding_id)
    known = (binding.key for binding in _bindings(node) if binding.id == binding_id)
    keys = (remapped or next(known, "")).split(",")
    focused = node.app.focused
    free = (key for key in keys if not (focused and focused.check_consume_key(key, key_to_character(key))))
    return safe(key_name(next(free, keys[0])))


def with_keys(node: DOMNode, text: str) -> str:
    """Return the text with each `{log.follow}` replaced by the key of this binding."""
    return _PLACEHOLDER.sub(lambda match: key_of(node, match[1]), text)


def possible_bindings(screen: Screen[Any], *, readonly: bool) -> Iterator[ActiveBinding]:
    """Yield the bindings that act on this screen; a read-only screen has none that change something."""
    for active in screen.active_bindings.values():
        if active.enabled and not (readonly and active.binding.id in CHANGES):
            yield active


def fitting(hints: Sequence[str], width: int) -> list[str]:
    """Return the first hints that fit, and always the last one."""
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
