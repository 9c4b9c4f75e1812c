"""Themes, by their names in the config file, and the style sheet."""

from collections.abc import Mapping

from textual.theme import Theme

STYLES = (
    *("running", "ok", "failed", "lost", "late", "error", "paused", "quiet", "waiting", "name"),
    *("bar", "track", "start", "heat-1", "heat-2", "heat-3", "heat-4"),
)
"""The styles of cells. Each has a word or a sign beside it that means the same."""

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
        "heat-1": "#8787d7",
        "heat-2": "#5f5fd7",
        "heat-3": "#5f00af",
        "heat-4": "#00005f",
        "bar": "#7fb894",
        "track": "#c3ccd9",
    },
)
OWN_THEMES = (DARK, LIGHT)
"""The themes that Textual does not bring."""
VARIABLES: Mapping[str, str] = {
    "row-cursor": "ansi_default",
    "row-cursor-idle": "ansi_default",
    **dict.fromkeys(("heat-1", "heat-2"), "ansi_blue"),
    **dict.fromkeys(("heat-3", "heat-4"), "ansi_bright_blue"),
    "bar": "ansi_green",
    "track": "ansi_bright_black",
}
"""The colours of the style sheet for themes that do not define them: those of the terminal."""
THEMES: Mapping[str, str] = {
    "dark": DARK.name,
    "light": LIGHT.name,
    "ansi": "ansi-dark",
    "ansi-light": "ansi-light",
}
"""Textual's themes by the names of the config file and `:theme`; `ansi` uses the terminal's colours."""

CSS = """
Screen { layout: vertical; overflow: hidden; }
Bar, FreezeLine, AlertLine, Tabs, Hints { height: 1; background: $panel; color: $foreground; }
* {
    scrollbar-size-vertical: 1; scrollbar-color: $scrollbar; scrollbar-background: $scrollbar-background;
    scrollbar-color-hover: $scrollbar-hover; scrollbar-background-hover: $scrollbar-background-hover;
    scrollbar-color-active: $scrollbar-active; scrollbar-background-active: $scrollbar-background-active;
}
AlertLine { color: $text-error; text-style: bold; display: none; }
AlertLine.-broken { display: block; }
AlertLine.-dead-only { display: block; text-style: none; }
.-short AlertLine.-dead-only { display: none; }
FreezeLine { color: $text-warning; text-style: bold; }
.-grey FreezeLine { color: $foreground; text-style: bold; }
.-grey AlertLine { color: $foreground; text-style: bold reverse; }
Tabs { background: $surface; }
#body { height: 1fr; }
Pane { height: 1fr; width: 1fr; layout: horizontal; }
RowTable {
    width: 1fr; height: 1fr; background: $background; color: $foreground;
    scrollbar-gutter: stable; overflow-x: hidden; overflow-y: auto;
}
RowTable > .table--header { text-style: bold; color: $foreground-muted; background: $surface; }
RowTable > .table--cursor { background: $row-cursor-idle; }
RowTable:focus > .table--cursor { background: $row-cursor; }
.-grey RowTable:focus > .table--cursor { text-style: reverse; }
RowTable:ansi > .table--cursor { text-style: bold underline; }
RowTable:ansi:focus > .table--cursor { color: $foreground; text-style: bold reverse; }
RowTable > .table--marked { text-style: underline; }
RowTable > .cell--running { color: $text-primary; }
RowTable > .cell--ok { color: $text-success; }
RowTable > .cell--failed, RowTable > .cell--lost, RowTable > .cell--error {
    color: $text-error; text-style: bold;
}
RowTable > .cell--late { color: $text-warning; text-style: bold; }
.-grey RowTable > .cell--failed, .-grey RowTable > .cell--lost, .-grey RowTable > .cell--error {
    color: $foreground; text-style: bold reverse;
}
.-grey RowTable > .cell--late { color: $foreground; text-style: bold; }
RowTable > .cell--paused, RowTable > .cell--quiet, RowTable > .cell--waiting { color: $foreground-muted; }
RowTable > .cell--name { text-style: bold; }
RowTable > .cell--bar { color: $bar; }
RowTable > .cell--track { color: $track; }
RowTable > .cell--start { color: $text-secondary; }
RowTable > .cell--heat-1 { color: $heat-1; }
RowTable > .cell--heat-2 { color: $heat-2; }
RowTable > .cell--heat-3 { color: $heat-3; }
RowTable > .cell--heat-4 { color: $heat-4; }
DetailPanel { width: 46; height: 1fr; background: $surface; display: none; }
.-wide DetailPanel { display: block; }
.-hide-detail DetailPanel { display: none; }
Screen.-show-detail Pane { layout: vertical; }
Screen.-show-detail DetailPanel { display: block; width: 1fr; height: 50%; }
HistoryPane { layout: vertical; }
.-wide HistoryPane { layout: horizontal; }
ChangePanel { width: 1fr; height: 45%; padding: 0 1; background: $surface; }
.-wide ChangePanel { width: 45%; height: 1fr; }
.-short ChangePanel, HistoryPane.-alone ChangePanel { display: none; }
Prompt { height: 1; layout: horizontal; background: $surface; }
Prompt Input { border: none; height: 1; padding: 0; width: 1fr; background: $surface; }
Prompt Input:focus { border: none; }
Prompt .prompt--sign { width: auto; }
Prompt .prompt--note { width: auto; max-width: 70%; color: $foreground-muted; }
Prompt .prompt--note.-wrong { color: $text-error; text-style: bold; }
.-short Tabs, .-short FilterTabs, .-short Hints { display: none; }
ModalScreen { align: center middle; }
.dialog {
    width: 72; max-width: 96%; height: auto; max-height: 96%; padding: 0 1;
    border: round $primary; background: $surface; overflow-y: auto;
}
HelpDialog .dialog { width: 124; }
OutputDialog .dialog { width: 96%; height: 96%; }
ComparisonDialog .dialog { width: 96%; }
Decide .dialog { width: 90%; max-width: 100; overflow: hidden; }
.dialog .heading { text-style: bold; }
Dialog.-airy .heading { margin-bottom: 1; }
Dialog.-airy .keys { margin-top: 1; }
.dialog Input { border: none; height: 1; padding: 0; background: $panel; }
.dialog .choices { height: 1; dock: bottom; }
.dialog.-asks { padding-bottom: 1; }
Toast { max-width: 90%; padding: 0 1; }
Screen.-prompting ToastRack { margin-bottom: 2; }
.legend { height: 1; background: $surface; }
SearchIcon { display: none; }
"""
