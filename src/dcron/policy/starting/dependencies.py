"""The graph of `@after`: which tasks run after which, and whether a task can still run in a flow."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

Graph = Mapping[str, Collection[str]]
"""The direct upstream tasks of each task, by name."""


def find_cycle(graph: Graph, start: str) -> list[str] | None:
    """Return a cycle from `start` back to it, as names in the order they would run; None without one."""
    path: dict[str, str] = {}
    open_names = [start]
    while open_names:
        name = open_names.pop()
        for earlier in graph.get(name, ()):
            if earlier == start:
                return _path_to(name, path, start)
            if earlier not in path:
                path[earlier] = name
                open_names.append(earlier)
    return None


def cycles(graph: Graph) -> Iterator[list[str]]:
    """Yield cycles that share no task, until the rest has none; each in the form of `find_cycle`."""
    left = dict(graph)
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle: list[str] = error.args[1]
            yield cycle
            left = {name: earlier for name, earlier in left.items() if name not in cycle}
        else:
            return


def groups_in_order(graph: Graph) -> list[list[str]]:
    """Return the names in groups, each after the groups that it depends on.

    Names that depend on each other, in a circle, are one group (Tarjan's strongly connected components).
    """
    groups: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    ungrouped: dict[str, None] = {}
    for start in graph:
        path = [] if start in number else [(start, iter(graph[start]))]
        while path:
            name, upstream = path[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                ungrouped[name] = None
            for each in upstream:
                if each in graph and each not in number:
                    path.append((each, iter(graph[each])))
                    break
                if each in ungrouped:
                    lowest[name] = min(lowest[name], number[each])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == number[name]:
                    groups.append(_take_from(ungrouped, name))
    return groups


def _take_from(ungrouped: dict[str, None], name: str) -> list[str]:
    """Remove this name and all later ones; return them."""
    group = []
    while name in ungrouped:
        group.append(ungrouped.popitem()[0])
    return group


def _path_to(name: str, path: Mapping[str, str], start: str) -> list[str]:
    cycle = [start, name] if name != start else [start]
    while name != start:
        name = path[name]
        cycle.append(name)
    return cycle if len(cycle) > 1 else [start, start]


def upstream_of(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return all tasks upstream of these, at any distance."""
    return _reach(graph, names)


def downstream_of(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return all tasks downstream of these, at any distance."""
    following: dict[str, list[str]] = {}
    for name, earlier in graph.items():
        for each in earlier:
            following.setdefault(each, []).append(name)
    return _reach(following, names)


def roots(graph: Graph, names: Iterable[str]) -> set[str]:
    """Return the tasks with which flows that reach these tasks begin."""
    return {name for name in upstream_of(graph, names) if not graph.get(name)}


def missing(graph: Graph, name: str, succeeded: Collection[str]) -> list[str]:
    """Return the upstream tasks that the task still waits for, when these have succeeded in its flow."""
    return [each for each in graph.get(name, ()) if each not in succeeded]


def cannot_run(graph: Graph, name: str, members: Collection[str]) -> bool:
    """Return whether the task, which is not part of a flow with these members, never will be.

    It can run when an upstream task is part of the flow. A root task may join a flow that began with another
    root, and then brings in what is downstream of it.
    """
    if upstream_of(graph, [name]) & set(members):
        return False
    return all(graph.get(member) for member in members)


def _reach(edges: Graph, names: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    open_names = list(names)
    while open_names:
        for each in edges.get(open_names.pop(), ()):
            if each not in reached:
                reached.add(each)
                open_names.append(each)
    return reached
