"""The themes: a dark and a light one, each for terminals with 16 million, 256 and 16 colours."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rich.console import Console
from textual import constants
from textual.theme import Theme

TRUE_COLOURS, COLOURS_256, COLOURS_16 = "truecolor", "256", "standard"
"""What terminals can show, in Rich's words."""

_PALETTES = """
                  dark     light    dark-256 light-256
primary           #5aa9f7  #0b62c4  #5fafff  #005faf
secondary         #9d8df1  #6a4fc0  #af87ff  #5f5faf
accent            #e6a3ff  #8f3fb0  #ffafff  #870087
warning           #e8b45a  #8f5a00  #d7af5f  #875f00
error             #ff6e7f  #c62536  #ff5f5f  #af0000
success           #74cf8c  #18793a  #5fd787  #008700
foreground        #dbe1ea  #1d2530  #ebebeb  #262626
background        #10141b  #fbfcfe  #121212  #ffffff
surface           #171c26  #f0f3f8  #1c1c1c  #f5f5f5
panel             #202835  #e1e7f0  #262626  #ebebeb
text-primary      #73b8ff  #0b5cba  #5fafff  #005faf
text-success      #7fd897  #146c33  #87d787  #005f00
text-warning      #f0c070  #855300  #ffd75f  #5f5f00
text-error        #ff8290  #be1f30  #ff8787  #af0000
foreground-muted  #9aa6b7  #586474  #afafaf  #585858
scrollbar         #39465a  #b9c4d4  #444444  #c4c4c4
scrollbar-hover   #4d5d76  #97a6bb  #585858  #a3a3a3
row-cursor        #20395a  #cfe2fb  #00005f  #d7d7ff
row-cursor-idle   #202835  #e1e7f0  #303030  #ebebeb
heat-1            #875fd7  #8787d7  #875fd7  #8787d7
heat-2            #af87ff  #5f5fd7  #af87ff  #5f5fd7
heat-3            #d7afff  #5f00af  #d7afff  #5f00af
heat-4            #ffd7ff  #00005f  #ffd7ff  #00005f
bar               #437f60  #7fb894  #5f875f  #87af87
track             #3a4657  #c3ccd9  #444444  #cdcdcd
"""
"""The colours of each theme. Rich draws those for 256 colours as one of about the same tint, and most others
as blue: reduced by itself, a grey panel is navy, and the row of the cursor has the colour of the panel."""
_TERMINAL = """
                         ansi            ansi-light
primary                  cyan            blue
secondary                bright_cyan     blue
accent                   magenta         magenta
warning                  yellow          magenta
error                    bright_red      red
success                  green           default
foreground               default         default
background               default         default
surface                  default         default
panel                    default         default
scrollbar                bright_black    bright_black
scrollbar-hover          bright_black    bright_black
scrollbar-active         cyan            blue
row-cursor               default         default
row-cursor-idle          default         default
heat-1                   magenta         blue
heat-2                   magenta         blue
heat-3                   bright_magenta  magenta
heat-4                   bright_magenta  magenta
bar                      green           green
track                    bright_black    bright_black
on-primary               black           bright_white
block-cursor-background  cyan            blue
block-cursor-foreground  black           bright_white
ansi-background          black           white
ansi-foreground          white           black
"""
"""The terminal's own colours. On black, dark blue and dark red are hard to read; on white, green, cyan and
yellow are. The style sheet draws the row of the cursor in reverse."""
_OWN = tuple(line.split()[0] for line in _PALETTES.splitlines()[2:12])
"""The colours that Textual has fields for; the others are variables."""


def _themes(palettes: str, prefix: str) -> Iterator[Theme]:
    """Yield the theme of each column."""
    names, *rows = (line.split() for line in palettes.splitlines()[1:])
    for column, name in enumerate(names):
        colours = {role: prefix + each[column] for role, *each in rows}
        ground, raised = colours["background"], colours["surface"]
        own = {role: colours.pop(role) for role in _OWN}
        colours |= {"scrollbar-background": ground, "scrollbar-background-hover": raised}
        colours |= {"scrollbar-background-active": raised}
        if prefix:
            own["boost"] = ground
        else:
            colours |= {"scrollbar-active": own["primary"], "on-primary": ground}
        if name.endswith("256"):
            colours["block-cursor-blurred-background"] = colours["row-cursor"]
        is_dark = "light" not in name
        yield Theme(f"dcron-{name}", dark=is_dark, ansi=bool(prefix), variables=colours, **own)  # type: ignore[arg-type]


DARK, LIGHT, DARK_256, LIGHT_256 = _themes(_PALETTES, "")
ANSI, ANSI_LIGHT = _themes(_TERMINAL, "ansi_")


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
