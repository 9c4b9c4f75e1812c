"""The keys: what the help shows, and what the config file may change."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.keys import Keys
from textual.keys import _character_to_key as key_event_name
from textual.screen import Screen

from dcron import tui
from dcron.errors import UsageError
from dcron.safetext import safe
from dcron.tui.commands import COMMANDS

_GENERAL = {"pane": 1, "table": 2, "main": 3, "view": 4, "app": 5}
"""What is the same everywhere stands last."""
_MODIFIERS = {"ctrl", "alt", "shift", "super", "hyper", "meta"}
_SIGNS = {key_event_name(chr(code)) for code in range(0x21, 0x7F)}
_MEANT = {
    **{"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup"},
    **{"pgdn": "pagedown", "ctrl+i": "tab", "ctrl+m": "enter", "ctrl-at": "ctrl+@"},
}
"""What no terminal tells of by this name, and how it does."""
_KEYS = ({key.value for key in Keys if "<" not in key.value} | _SIGNS) - _MEANT.keys()


def binding_ids() -> set[str]:
    """The ids of all bindings, by which the config file names them."""
    modules = (import_module(found.name) for found in walk_packages(tui.__path__, f"{tui.__name__}."))
    classes = {
        each for module in modules for each in vars(module).values() if isinstance(each, type) and _ours(each)
    }
    bindings = (binding for each in classes for binding in vars(each).get("BINDINGS", ()))
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}


def require_known(keys: Mapping[str, str], where: Path) -> None:
    """Raise UsageError where `where`, the config file, names a binding or a key that there is none of."""
    known = binding_ids()
    for name, chosen in keys.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))}"
            raise UsageError(f"{where}: [tui.keys]: there is no key {name!r}{hint}")
        for key in chosen.split(","):
            if not _is_key(key.strip()):
                raise UsageError(
                    f"{where}: [tui.keys]: {name} = {chosen!r}: no key is called {key.strip()!r}{_near(key)}"
                )


def _is_key(name: str) -> bool:
    """Whether a terminal can tell of a key by this name."""
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    if modifiers == ["shift"] and len(key) == 1:
        return False  # it comes as a capital letter
    is_sign = len(key) == 1 and key.isprintable() and not key.isspace()
    is_known = name not in _MEANT and (is_sign or key in _KEYS)
    return is_known and len({*modifiers} & _MODIFIERS) == len(modifiers)


def _near(name: str) -> str:
    """What was meant, or how keys are called."""
    name = name.strip().lower()
    capital = name.removeprefix("shift+").upper()
    near = [capital] if len(capital) == 1 < len(name) else get_close_matches(name, _KEYS, n=1)
    meant = _MEANT.get(name) or next(iter(near), None)
    return f"; did you mean {meant}?" if meant else "; there are such as f5, ctrl+g, G, space and slash"


def help_content(screen: Screen[object]) -> Content:
    """The keys that do something here, where each comes from, and the commands."""
    groups: dict[str, dict[str, tuple[str, str, str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.id and active.enabled:
            group = groups.setdefault(_named(binding), {})
            keys = group.get(binding.action, ("", "", ""))[0]
            shown = screen.app.get_key_display(binding)
            group[binding.action] = (f"{keys} {shown}".strip(), binding.description, binding.id or "")
    parts: list[tuple[str, str] | str] = []
    for name, group in sorted(groups.items(), key=lambda each: _GENERAL.get(each[0], 0)):
        parts.append((f"\n{name}\n", "bold"))
        for keys, told, binding_id in group.values():
            parts += [f"  {safe(keys):<18} {told:<26}", (f"{binding_id}\n", "dim")]
    parts.append(("\ncommands, after :\n", "bold"))
    parts += _commands()
    parts.append("\nThe words at the right are the names for [tui.keys] in the config file.\n")
    return Content.assemble(*parts)


def _commands() -> Iterable[str]:
    for command in COMMANDS.values():
        yield f"  {command.word + ' ' + command.takes:<18} {command.told}\n"


def _named(binding: Binding) -> str:
    return (binding.id or "").partition(".")[0]


def _ours(each: type) -> bool:
    return issubclass(each, DOMNode) and each.__module__.startswith(tui.__name__)
