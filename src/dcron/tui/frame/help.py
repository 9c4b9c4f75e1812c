"""The help: what the signs mean, the keys that act on this screen, and the commands."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen

from dcron.tui.frame.commands import COMMANDS
from dcron.tui.host import Host
from dcron.tui.keys.keynames import possible_bindings, with_keys
from dcron.tui.table.cells import SPARK_SIGNS
from dcron.values.safe_text import cells, safe

_LAST = {"pane": 1, "table": 2, "main": 3, "view": 4, "app": 5}
"""The groups that are the same everywhere come last."""
LEAST_GAP = 2
"""Least cells between two columns."""
LEGEND = (
    ("running", "running", "$text-primary"),
    ("ok", "ok", "$text-success"),
    ("failed", "failed", "$text-error"),
    ("lost", "lost", "$text-error"),
    ("late", "late or in error", "$text-warning"),
    ("paused", "paused", "$foreground-muted"),
    ("waiting", "waiting, or not run yet", "$foreground-muted"),
)
"""The signs of tasks and runs by their styles, what they mean, and their colours."""
Part = tuple[str, str]
Line = Sequence[Part]


def help_content(screen: Screen[object], width: int) -> Content:
    """Return the legend, the active keys in groups, and the commands, in as many columns as fit."""
    host = cast("Host", screen.app)
    back = with_keys(screen, "{main.quit}")
    leaves = f"{back} goes back, and quits from the first view; " if back else ""
    leave = with_keys(screen, leaves + "{app.quit} quits at once")
    head: list[Line] = [*_legend(host, width), [(leave, "bold")]]
    groups = _lines_of_groups(_groups(screen))
    column = max(_length(line) for group in groups for line in group) + LEAST_GAP
    fits_twice = width >= 2 * column - LEAST_GAP
    keys = _in_two_columns(groups, column) if fits_twice else [line for group in groups for line in group]
    commands = [[("", "")], [("commands, after :", "bold $text-primary")], *_commands()]
    foot = [
        [("", "")],
        [("The words at the right are the names for [tui.keys] in the config file.", "$foreground-muted")],
    ]
    return Content("\n").join(Content.assemble(*line) for line in (*head, *keys, *commands, *foot))


def _legend(host: Host, width: int) -> Iterator[Line]:
    """Yield what the signs mean."""
    yield from _wrapped([(f"{host.signs[style]} {word}", colour) for style, word, colour in LEGEND], width)
    recent = [f"{sign} {state.value}" for state, sign in SPARK_SIGNS[host.settings.unicode].items()]
    texts = ["10 runs: the height is the duration", *recent]
    yield from _wrapped([(text, "$foreground-muted") for text in texts], width)


def _wrapped(parts: Sequence[Part], width: int) -> Iterator[Line]:
    """Yield lines of whole parts."""
    line: list[Part] = []
    for text, style in parts:
        if line and _length(line) + cells(text) > width:
            yield line
            line = []
        line.append((f"{text}   ", style))
    yield line


def _groups(screen: Screen[object]) -> Mapping[str, Mapping[str, tuple[str, str, str]]]:
    """Return the keys, the label and the id of each active binding, by group and action."""
    readonly = cast("Host", screen.app).settings.readonly
    groups: dict[str, dict[str, tuple[str, str, str]]] = {}
    for active in possible_bindings(screen, readonly=readonly):
        binding = active.binding
        if binding.id:
            group = groups.setdefault(_group(binding), {})
            keys = group.get(binding.action, ("", "", ""))[0]
            shown = screen.app.get_key_display(binding)
            group[binding.action] = (f"{keys} {shown}".strip(), binding.description, binding.id or "")
    return dict(sorted(groups.items(), key=lambda each: _LAST.get(each[0], 0)))


def _lines_of_groups(groups: Mapping[str, Mapping[str, tuple[str, str, str]]]) -> list[list[Line]]:
    """Return the lines of each group: its title, and below it the keys, labels and ids, aligned."""
    rows = [row for keys in groups.values() for row in keys.values()]
    key_cells, label_cells = (max(cells(safe(row[place])) for row in rows) for place in (0, 1))
    found = []
    for name, keys in groups.items():
        lines: list[Line] = [[("", "")], [(name, "bold $text-primary")]]
        for shown, label, binding_id in keys.values():
            parts = [(f"  {safe(shown):<{key_cells}}", "bold"), (f"  {label:<{label_cells}}  ", "")]
            lines.append([*parts, (binding_id, "$foreground-muted")])
        found.append(lines)
    return found


def _in_two_columns(groups: Sequence[Sequence[Line]], column: int) -> list[Line]:
    """Return the groups in two columns of about the same height; none is broken."""
    left: list[Line] = []
    right: list[Line] = []
    half = sum(map(len, groups)) / 2
    for group in groups:
        (left if len(left) + len(group) / 2 <= half else right).extend(group)
    lines = max(len(left), len(right))
    empty: Line = [("", "")]
    pairs = zip(
        [*left, *[empty] * (lines - len(left))], [*right, *[empty] * (lines - len(right))], strict=True
    )
    return [[*one, (" " * (column - _length(one)), ""), *other] for one, other in pairs]


def _length(line: Line) -> int:
    return sum(cells(text) for text, _ in line)


def _commands() -> Iterator[Line]:
    for command in COMMANDS.values():
        yield [(f"  {command.word + ' ' + command.takes:<18}", "bold"), (f" {command.help}", "")]


def _group(binding: Binding) -> str:
    return (binding.id or "").partition(".")[0]
