"""The style sheet. Its colours are in colours.py."""

STYLES = (
    *("running", "ok", "failed", "lost", "late", "error", "paused", "quiet", "waiting", "name"),
    *("bar", "track", "start", "heat-1", "heat-2", "heat-3", "heat-4"),
)
"""The styles of cells. Each has a word or a sign beside it that means the same."""

CSS = """
Screen { layout: vertical; overflow: hidden; }
Screen:ansi, Input:ansi { background: $background; color: $foreground; }
ModalScreen:ansi { background: transparent; }
.-grey CommandList > .option-list--option-highlighted {
    background: $foreground; color: $background; text-style: bold underline;
}
CommandPalette:ansi { color: $foreground; background: transparent; }
CommandPalette:ansi > Vertical, CommandPalette:ansi CommandList { background: $background; }
CommandPalette:ansi > .command-palette--help-text { text-style: not bold; }
Input > .input--placeholder, Input > .input--suggestion { color: $foreground-muted; }
Input:ansi > .input--cursor { background: $background; color: $foreground; text-style: reverse; }
Input:ansi > .input--selection { background: $primary; color: $on-primary; }
Input:ansi > .input--placeholder, Input:ansi > .input--suggestion { color: $foreground; text-style: dim; }
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
DetailPanel { width: 26%; min-width: 46; max-width: 70; height: 1fr; background: $surface; display: none; }
.-wide DetailPanel { display: block; }
.-hide-detail DetailPanel { display: none; }
Screen.-show-detail Pane { layout: vertical; }
Screen.-show-detail DetailPanel { display: block; width: 1fr; height: 50%; }
HistoryPane { layout: vertical; }
.-wide HistoryPane { layout: horizontal; }
ChangePanel { width: 1fr; height: 45%; padding: 0 1; background: $surface; }
.-wide ChangePanel { width: 45%; height: 1fr; }
.-short ChangePanel, HistoryPane.-alone ChangePanel { display: none; }
.-short Tabs, .-short FilterTabs, .-short Hints { display: none; }
ModalScreen { align: center middle; }
.dialog {
    width: 72; max-width: 96%; height: auto; max-height: 96%; padding: 0 1;
    border: round $primary; background: $surface; overflow-y: auto;
}
HelpDialog .dialog { width: 124; }
OutputDialog .dialog { width: 96%; height: 96%; }
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
