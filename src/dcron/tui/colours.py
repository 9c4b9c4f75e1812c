"""The themes: a dark and a light one, each for terminals with 16 million, 256 and 16 colours."""

from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from textual import constants
from textual.theme import Theme

TRUE_COLOURS, COLOURS_256, COLOURS_16 = "truecolor", "256", "standard"
"""What terminals can show, in Rich's words."""

DARK = Theme(
    name="dcron-dark",
    primary="#5aa9f7",
    secondary="#9d8df1",
    accent="#e6a3ff",
    warning="#e8b45a",
    error="#ff6e7f",
    success="#74cf8c",
    foreground="#dbe1ea",
    background="#10141b",
    surface="#171c26",
    panel="#202835",
    variables={
        "text-primary": "#73b8ff",
        "text-success": "#7fd897",
        "text-warning": "#f0c070",
        "text-error": "#ff8290",
        "foreground-muted": "#9aa6b7",
        "scrollbar": "#39465a",
        "scrollbar-hover": "#4d5d76",
        "scrollbar-active": "#5aa9f7",
        "scrollbar-background": "#10141b",
        "scrollbar-background-hover": "#171c26",
        "scrollbar-background-active": "#171c26",
        "row-cursor": "#20395a",
        "row-cursor-idle": "#202835",
        "on-primary": "#10141b",
        "heat-1": "#875fd7",
        "heat-2": "#af87ff",
        "heat-3": "#d7afff",
        "heat-4": "#ffd7ff",
        "bar": "#437f60",
        "track": "#3a4657",
    },
)
LIGHT = Theme(
    name="dcron-light",
    dark=False,
    primary="#0b62c4",
    secondary="#6a4fc0",
    accent="#8f3fb0",
    warning="#8f5a00",
    error="#c62536",
    success="#18793a",
    foreground="#1d2530",
    background="#fbfcfe",
    surface="#f0f3f8",
    panel="#e1e7f0",
    variables={
        "text-primary": "#0b5cba",
        "text-success": "#146c33",
        "text-warning": "#855300",
        "text-error": "#be1f30",
        "foreground-muted": "#586474",
        "scrollbar": "#b9c4d4",
        "scrollbar-hover": "#97a6bb",
        "scrollbar-active": "#0b62c4",
        "scrollbar-background": "#fbfcfe",
        "scrollbar-background-hover": "#f0f3f8",
        "scrollbar-background-active": "#f0f3f8",
        "row-cursor": "#cfe2fb",
        "row-cursor-idle": "#e1e7f0",
        "on-primary": "#fbfcfe",
        "heat-1": "#8787d7",
        "heat-2": "#5f5fd7",
        "heat-3": "#5f00af",
        "heat-4": "#00005f",
        "bar": "#7fb894",
        "track": "#c3ccd9",
    },
)
DARK_256 = Theme(
    name="dcron-dark-256",
    primary="#5fafff",
    secondary="#af87ff",
    accent="#ffafff",
    warning="#d7af5f",
    error="#ff5f5f",
    success="#5fd787",
    foreground="#ebebeb",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    variables={
        "text-primary": "#5fafff",
        "text-success": "#87d787",
        "text-warning": "#ffd75f",
        "text-error": "#ff8787",
        "foreground-muted": "#afafaf",
        "scrollbar": "#444444",
        "scrollbar-hover": "#585858",
        "scrollbar-active": "#5fafff",
        "scrollbar-background": "#121212",
        "scrollbar-background-hover": "#1c1c1c",
        "scrollbar-background-active": "#1c1c1c",
        "row-cursor": "#00005f",
        "row-cursor-idle": "#303030",
        "block-cursor-blurred-background": "#00005f",
        "on-primary": "#121212",
        "heat-1": "#875fd7",
        "heat-2": "#af87ff",
        "heat-3": "#d7afff",
        "heat-4": "#ffd7ff",
        "bar": "#5f875f",
        "track": "#444444",
    },
)
"""Colours that Rich draws as one of the 256 of about the same tint. It takes most others for blue."""
LIGHT_256 = Theme(
    name="dcron-light-256",
    dark=False,
    primary="#005faf",
    secondary="#5f5faf",
    accent="#870087",
    warning="#875f00",
    error="#af0000",
    success="#008700",
    foreground="#262626",
    background="#ffffff",
    surface="#f5f5f5",
    panel="#ebebeb",
    variables={
        "text-primary": "#005faf",
        "text-success": "#005f00",
        "text-warning": "#5f5f00",
        "text-error": "#af0000",
        "foreground-muted": "#585858",
        "scrollbar": "#c4c4c4",
        "scrollbar-hover": "#a3a3a3",
        "scrollbar-active": "#005faf",
        "scrollbar-background": "#ffffff",
        "scrollbar-background-hover": "#f5f5f5",
        "scrollbar-background-active": "#f5f5f5",
        "row-cursor": "#d7d7ff",
        "row-cursor-idle": "#ebebeb",
        "block-cursor-blurred-background": "#d7d7ff",
        "on-primary": "#ffffff",
        "heat-1": "#8787d7",
        "heat-2": "#5f5fd7",
        "heat-3": "#5f00af",
        "heat-4": "#00005f",
        "bar": "#87af87",
        "track": "#cdcdcd",
    },
)
_OF_TERMINAL: Mapping[str, str] = {
    **dict.fromkeys(("row-cursor", "row-cursor-idle"), "ansi_default"),
    "scrollbar": "ansi_bright_black",
    "scrollbar-hover": "ansi_bright_black",
    "scrollbar-background": "ansi_default",
    "scrollbar-background-hover": "ansi_default",
    "scrollbar-background-active": "ansi_default",
    "bar": "ansi_green",
    "track": "ansi_bright_black",
}
"""The terminal's own colours. The style sheet draws the row of the cursor in reverse."""
ANSI = Theme(
    name="dcron-ansi",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_bright_cyan",
    accent="ansi_magenta",
    warning="ansi_yellow",
    error="ansi_bright_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        **_OF_TERMINAL,
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "scrollbar-active": "ansi_cyan",
        "block-cursor-background": "ansi_cyan",
        "block-cursor-foreground": "ansi_black",
        "on-primary": "ansi_black",
        "heat-1": "ansi_magenta",
        "heat-2": "ansi_magenta",
        "heat-3": "ansi_bright_magenta",
        "heat-4": "ansi_bright_magenta",
    },
)
"""Without dark blue and dark red: they are hard to read on black."""
ANSI_LIGHT = Theme(
    name="dcron-ansi-light",
    ansi=True,
    dark=False,
    primary="ansi_blue",
    secondary="ansi_blue",
    accent="ansi_magenta",
    warning="ansi_magenta",
    error="ansi_red",
    success="ansi_default",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        **_OF_TERMINAL,
        "ansi-background": "ansi_white",
        "ansi-foreground": "ansi_black",
        "scrollbar-active": "ansi_blue",
        "block-cursor-background": "ansi_blue",
        "block-cursor-foreground": "ansi_bright_white",
        "on-primary": "ansi_bright_white",
        "heat-1": "ansi_blue",
        "heat-2": "ansi_blue",
        "heat-3": "ansi_magenta",
        "heat-4": "ansi_magenta",
    },
)
"""Without texts in green, cyan or yellow: they are hard to read on white."""


def _painted(theme: Theme, name: str, ground: str, text: str) -> Theme:
    """Return the theme with a ground of its own, whatever the ground of the terminal is."""
    grounds = dict.fromkeys(("background", "surface", "panel", "row-cursor", "row-cursor-idle"), ground)
    texts = dict.fromkeys(("foreground", "foreground-muted", "text-muted", "text-disabled"), text)
    bars = {each: ground for each in theme.variables if each.startswith("scrollbar-background")}
    success = text if theme.success == "ansi_default" else theme.success
    variables = {**theme.variables, **grounds, **texts, **bars}
    return replace(theme, name=name, success=success, foreground=text, background=ground, variables=variables)


DARK_16 = _painted(ANSI, "dcron-dark-16", "ansi_black", "ansi_white")
LIGHT_16 = _painted(ANSI_LIGHT, "dcron-light-16", "ansi_bright_white", "ansi_black")
OWN_THEMES = (DARK, LIGHT, DARK_256, LIGHT_256, DARK_16, LIGHT_16, ANSI, ANSI_LIGHT)

_BY_COLOURS: Mapping[str, Mapping[str, Theme]] = {
    "dark": {TRUE_COLOURS: DARK, COLOURS_256: DARK_256, COLOURS_16: DARK_16},
    "light": {TRUE_COLOURS: LIGHT, COLOURS_256: LIGHT_256, COLOURS_16: LIGHT_16},
    "ansi": dict.fromkeys((TRUE_COLOURS, COLOURS_256, COLOURS_16), ANSI),
    "ansi-light": dict.fromkeys((TRUE_COLOURS, COLOURS_256, COLOURS_16), ANSI_LIGHT),
}
THEMES = tuple(_BY_COLOURS)
"""The names of the config file and of `:theme`; `ansi` uses the terminal's colours."""


def theme_name(name: str, colours: str) -> str:
    """Return Textual's name for one of THEMES, on terminals with these colours."""
    return _BY_COLOURS[name][colours].name


def terminal_colours() -> str:
    """Return what this terminal can show, by $COLORTERM and $TERM."""
    console = Console(color_system=constants.COLOR_SYSTEM, force_terminal=True)  # type: ignore[arg-type]
    return console.color_system if console.color_system in (TRUE_COLOURS, COLOURS_256) else COLOURS_16
