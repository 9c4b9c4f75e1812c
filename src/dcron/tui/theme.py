"""Themes, by their names in the config file, and the style sheet."""

from collections.abc import Mapping

STYLES = ("running", "ok", "failed", "lost", "late", "error", "paused", "quiet", "waiting", "name")
"""The styles of cells. Each has a word or a sign beside it that means the same."""

THEMES: Mapping[str, str] = {
    "dark": "textual-dark",
    "light": "textual-light",
    "ansi": "ansi-dark",
    "ansi-light": "ansi-light",
}
"""Textual's themes by the names of the config file and `:theme`; `ansi` uses the terminal's colours."""

CSS = """
Screen { layout: vertical; overflow: hidden; }
Bar, AlertLine, Tabs, Hints { height: 1; background: $panel; color: $foreground; }
AlertLine { color: $text-error; text-style: bold; }
.-grey AlertLine { color: $foreground; text-style: bold reverse; }
Tabs { background: $surface; }
#body { height: 1fr; }
Pane { height: 1fr; width: 1fr; layout: horizontal; }
RowTable {
    width: 1fr; height: 1fr; background: $background; color: $foreground;
    scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden; overflow-y: auto;
}
RowTable > .table--header { text-style: bold; color: $foreground-muted; background: $surface; }
RowTable > .table--cursor { text-style: bold; background: $primary-muted; color: $foreground; }
RowTable:focus > .table--cursor { text-style: bold reverse; }
RowTable:ansi > .table--cursor { background: $background; text-style: bold underline; }
RowTable:ansi:focus > .table--cursor { background: $background; text-style: bold reverse; }
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
DetailPanel { width: 46; height: 1fr; padding: 0 1; background: $surface; display: none; }
.-wide DetailPanel { display: block; }
.-hide-facts DetailPanel { display: none; }
HistoryPane { layout: vertical; }
.-wide HistoryPane { layout: horizontal; }
ChangePanel { width: 1fr; height: 45%; padding: 0 1; background: $surface; }
.-wide ChangePanel { width: 45%; height: 1fr; }
.-short ChangePanel, .-hide-facts ChangePanel { display: none; }
Prompt { height: 1; layout: horizontal; background: $surface; }
Prompt Input { border: none; height: 1; padding: 0; width: 1fr; background: $surface; }
Prompt Input:focus { border: none; }
Prompt .prompt--sign { width: auto; }
Prompt .prompt--note { width: auto; max-width: 60%; color: $foreground-muted; }
Prompt .prompt--note.-wrong { color: $text-error; text-style: bold; }
.-short Tabs, .-short Hints { display: none; }
ModalScreen { align: center middle; }
.dialog {
    width: 72; max-width: 96%; height: auto; max-height: 96%; padding: 0 1;
    border: round $primary; background: $surface; overflow-y: auto;
}
.dialog Input { border: none; height: 1; padding: 0; background: $panel; }
.dialog .choices { height: 1; dock: bottom; }
.dialog.-asks { padding-bottom: 1; }
Toast { max-width: 90%; padding: 0 1; }
Screen.-prompting ToastRack { margin-bottom: 2; }
SearchIcon { display: none; }
"""
