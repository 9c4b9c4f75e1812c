"""The help: the keys that act on this screen, and the commands."""

from collections.abc import Iterable
from typing import cast

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen

from dcron.safetext import safe
from dcron.tui.commands import COMMANDS
from dcron.tui.host import Host
from dcron.tui.keynames import CHANGES

_LAST = {"pane": 1, "table": 2, "main": 3, "view": 4, "app": 5}
"""The groups that are the same everywhere come last."""


def help_content(screen: Screen[object]) -> Content:
    """Return the active keys in groups, and the commands."""
    readonly = cast("Host", screen.app).settings.readonly
    groups: dict[str, dict[str, tuple[str, str, str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        is_possible = active.enabled and not (readonly and binding.id in CHANGES)
        if binding.id and is_possible:
            group = groups.setdefault(_group(binding), {})
            keys = group.get(binding.action, ("", "", ""))[0]
            shown = screen.app.get_key_display(binding)
            group[binding.action] = (f"{keys} {shown}".strip(), binding.description, binding.id or "")
    parts: list[tuple[str, str] | str] = []
    for name, group in sorted(groups.items(), key=lambda each: _LAST.get(each[0], 0)):
        parts.append((f"\n{name}\n", "bold"))
        for keys, label, binding_id in group.values():
            parts += [f"  {safe(keys):<18} {label:<26}", (f"{binding_id}\n", "dim")]
    parts.append(("\ncommands, after :\n", "bold"))
    parts += _commands()
    parts.append("\nThe words at the right are the names for [tui.keys] in the config file.\n")
    return Content.assemble(*parts)


def _commands() -> Iterable[str]:
    for command in COMMANDS.values():
        yield f"  {command.word + ' ' + command.takes:<18} {command.help}\n"


def _group(binding: Binding) -> str:
    return (binding.id or "").partition(".")[0]
