"""Draw a dependency graph as text: the tasks connected with one task."""

from collections.abc import Collection, Mapping

from dcron.policy.starting.dependencies import downstream_of, upstream_of

MOST_LINES = 40
MOST_NAMES = 12
"""Names shown on one line."""
INDENT = "  "


def graph_lines(graph: Mapping[str, Collection[str]], name: str) -> list[str]:
    """Return the graph from its root tasks on: each line runs after those above it; `name` is in brackets.

    Tasks with the same upstream tasks share a line. A line names its upstream tasks unless they are exactly
    the step above. Of a graph too large to show, only what is upstream and downstream of `name` is drawn, and
    of that the lines around it.
    """
    if name not in graph:
        return []
    drawn = _drawn(graph, name)
    if len(drawn) > MOST_LINES:
        near = {name} | upstream_of(graph, [name]) | downstream_of(graph, [name])
        drawn = _drawn({each: earlier for each, earlier in graph.items() if each in near}, name)
    here = next(number for number, line in enumerate(drawn) if f"[{name}]" in line)
    first = max(0, min(here - MOST_LINES // 2, len(drawn) - MOST_LINES))
    hidden = len(drawn) - MOST_LINES
    return [*drawn[first : first + MOST_LINES], *([f"and {hidden} more lines"] if hidden > 0 else [])]


def steps(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the tasks in steps: the tasks of each step run after tasks of earlier steps only.

    A cycle, which only SQL can have written, is one step.
    """
    left = dict(graph)
    found = []
    while left:
        ready = sorted(name for name, earlier in left.items() if not any(each in left for each in earlier))
        found.append(ready or sorted(left))
        left = {name: earlier for name, earlier in left.items() if name not in found[-1]}
    return found


def _drawn(graph: Mapping[str, Collection[str]], name: str) -> list[str]:
    lines = []
    above: set[str] = set()
    for depth, step in enumerate(steps(graph)):
        groups: dict[tuple[str, ...], list[str]] = {}
        for each in step:
            groups.setdefault(tuple(sorted(graph[each])), []).append(each)
        for earlier, names in groups.items():
            arrow = f"{INDENT * depth}-> " if depth else ""
            after = f"   (after {_list(earlier)})" if depth and set(earlier) != above else ""
            lines.append(f"{arrow}{_list(names, name)}{after}")
        above = set(step)
    return lines


def _list(names: Collection[str], marked: str | None = None) -> str:
    shown = sorted(names, key=lambda each: each != marked)[:MOST_NAMES] if len(names) > MOST_NAMES else names
    text = ", ".join(f"[{each}]" if each == marked else each for each in shown)
    return text + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
