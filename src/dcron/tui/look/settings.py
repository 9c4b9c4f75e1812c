"""Settings of the TUI, from the command line and the config file."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dcron.config.files import Config, config_path, load_config
from dcron.errors import UsageError
from dcron.tui.look.colours import THEMES, TRUE_COLOURS, terminal_colours
from dcron.values.safe_text import safe

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab

GLYPHS = ("ascii", "unicode")


@dataclass(frozen=True)
class TuiSettings:
    """Settings of the TUI."""

    address: str
    """The database, inert and without its password."""
    readonly: bool = False
    unicode: bool = False
    theme: str = "dark"
    colours: str = TRUE_COLOURS
    """What the terminal can show."""
    keys: Mapping[str, str] = field(default_factory=dict)
    context: str = ""
    """The name of the context that was chosen, if one was."""
    is_protected: bool = False
    """Whether a question is answered with the name of the context."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """What a `dcron` on the same database needs in its environment; None if it cannot be named so."""
    complete_verb: "Callable[[Crontab, Sequence[str], str], Sequence[str]] | None" = field(
        default=None, repr=False
    )
    """Returns what may follow a verb of the shell and its words, with this beginning."""
    state_file: Path | None = None
    """Where the screen remembers filters and commands; None: nowhere."""


def new_task_zone(crontab: "Crontab") -> str:
    """Return the zone of a new task; empty if the setting is invalid, then the form asks for one."""
    from dcron.services.settings import SharedSettings

    try:
        return SharedSettings(crontab).new_task_zone(load_config().timezone).name
    except UsageError:
        return ""


def has_unicode(environment: Mapping[str, str]) -> bool:
    """Return whether the locale is one of UTF-8. The console of Linux has too few characters for it."""
    named = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, named), "").lower()
    return ("utf-8" in locale or "utf8" in locale) and environment.get("TERM") != "linux"


def settings_of(config: Config, address: str, *, readonly: bool) -> TuiSettings:
    """Return the settings; `address` is the database without its password.

    Raises UsageError for unknown words in the config file.
    """
    where = config_path()
    theme = config.tui.theme or "dark"
    if theme not in THEMES:
        raise UsageError(f"{where}: [tui]: there is no theme {theme!r}; there are {', '.join(THEMES)}")
    glyphs = config.tui.glyphs or ("unicode" if has_unicode(os.environ) else "ascii")
    if glyphs not in GLYPHS:
        raise UsageError(f"{where}: [tui]: glyphs are {' or '.join(GLYPHS)}, not {glyphs!r}")
    if config.tui.keys:
        from dcron.tui.keys.keys import require_known

        require_known(config.tui.keys, where)
    chosen = config.context
    return TuiSettings(
        safe(address),
        readonly,
        glyphs == "unicode",
        theme,
        terminal_colours(),
        config.tui.keys,
        context=chosen.name if chosen else "",
        is_protected=bool(chosen and chosen.is_protected),
    )
