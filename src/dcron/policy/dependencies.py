"""What comes after what: the graph of `@after`, and what a finished step means for the steps behind it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

Graph = Mapping[str, Collection[str]]
"""The tasks that each task comes after, by name."""


def find_cycle(graph: Graph, start: str) -> list[str] | None:
    """The names of a circle that leads from `start` back to it, in the order they would run; or None."""
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
    """Circles that share no task, until without these tasks there is none; each as `find_cycle` tells it."""
    left = dict(graph)
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            yield circle
            left = {name: earlier for name, earlier in left.items() if name not in circle}
        else:
            return


def _path_to(name: str, path: Mapping[str, str], start: str) -> list[str]:
    circle = [start, name] if name != start else [start]
    while name != start:
        name = path[name]
        circle.append(name)
    return circle if len(circle) > 1 else [start, start]


def upstream_of(graph: Graph, names: Iterable[str]) -> set[str]:
    """All tasks that come, at any distance, before these."""
    return _reach(graph, names)


def downstream_of(graph: Graph, names: Iterable[str]) -> set[str]:
    """All tasks that come, at any distance, after these."""
    following: dict[str, list[str]] = {}
    for name, earlier in graph.items():
        for each in earlier:
            following.setdefault(each, []).append(name)
    return _reach(following, names)


def roots(graph: Graph, names: Iterable[str]) -> set[str]:
    """The tasks with which flows that come to these begin."""
    return {name for name in upstream_of(graph, names) if not graph.get(name)}


def missing(graph: Graph, name: str, succeeded: Collection[str]) -> list[str]:
    """What the task still waits for, when these have succeeded in its flow."""
    return [each for each in graph.get(name, ()) if each not in succeeded]


def cannot_run(graph: Graph, name: str, members: Collection[str]) -> bool:
    """Whether the task, not yet part of a flow with these members, never will be.

    It comes when a task before it is part of it. Tasks with which flows begin may join a flow that began
    with another of them, and then bring in what comes after them.
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
