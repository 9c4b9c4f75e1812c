"""The keys that the config file may change, and their names."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys
from textual.keys import _character_to_key as key_event_name

from dcron import tui
from dcron.errors import UsageError
from dcron.values.similar import did_you_mean, similar

_MODIFIERS = {"ctrl", "alt", "shift", "super", "hyper", "meta"}
_SIGNS = {key_event_name(chr(code)) for code in range(0x21, 0x7F)}
_MEANT = {
    **{"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup"},
    **{"pgdn": "pagedown", "ctrl+i": "tab", "ctrl+m": "enter", "ctrl-at": "ctrl+@"},
}
"""Names that no terminal uses for a key, with the names that terminals use."""
_KEYS = ({key.value for key in Keys if "<" not in key.value} | _SIGNS) - _MEANT.keys()


def bindings() -> set[Binding]:
    """Return all bindings that the config file can name, by their ids."""
    modules = (import_module(found.name) for found in walk_packages(tui.__path__, f"{tui.__name__}."))
    classes = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and _is_ours(each)
    }
    found = (binding for each in classes for binding in vars(each).get("BINDINGS", ()))
    return {binding for binding in found if isinstance(binding, Binding) and binding.id}


def binding_ids() -> set[str]:
    """Return the ids of all bindings; the config file names them so."""
    return {binding.id or "" for binding in bindings()}


def require_known(keys: Mapping[str, str], where: Path) -> None:
    """Check the keys of the config file `where`. Raises UsageError for an unknown binding or key."""
    known = binding_ids()
    for name, chosen in keys.items():
        if name not in known:
            hint = did_you_mean(name, known, f"known are {', '.join(sorted(known))}")
            raise UsageError(f"{where}: [tui.keys]: there is no key {name!r}{hint}")
        for key in chosen.split(","):
            if not _is_key(key.strip()):
                raise UsageError(
                    f"{where}: [tui.keys]: {name} = {chosen!r}: no key is called {key.strip()!r}{_near(key)}"
                )


def _is_key(name: str) -> bool:
    """Return whether terminals have a key of this name."""
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    if modifiers == ["shift"] and len(key) == 1:
        return False  # it comes as a capital letter
    is_sign = len(key) == 1 and key.isprintable() and not key.isspace()
    is_known = name not in _MEANT and (is_sign or key in _KEYS)
    return is_known and len({*modifiers} & _MODIFIERS) == len(modifiers)


def _near(name: str) -> str:
    """Return a suggestion, or examples of names."""
    name = name.strip().lower()
    capital = name.removeprefix("shift+").upper()
    near = [capital] if len(capital) == 1 < len(name) else similar(name, _KEYS)
    meant = _MEANT.get(name) or next(iter(near), None)
    return f"; did you mean {meant}?" if meant else "; there are such as f5, ctrl+g, G, space and slash"


def _is_ours(each: type) -> bool:
    return issubclass(each, DOMNode) and each.__module__.startswith(tui.__name__)
