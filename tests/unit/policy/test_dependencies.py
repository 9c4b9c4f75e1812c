"""What comes after what."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.policy.starting.dependencies import (
    cannot_run,
    cycles,
    downstream_of,
    find_cycle,
    groups_in_order,
    missing,
    roots,
    upstream_of,
)

DIAMOND = {"extract": (), "a": ("extract",), "b": ("extract",), "load": ("a", "b")}
TWO_ROOTS = {"x": (), "y": (), "x1": ("x",), "y1": ("y",), "end": ("x1", "y1")}


def test_before_and_behind_reach_at_any_distance() -> None:
    assert upstream_of(DIAMOND, ["load"]) == {"a", "b", "extract"}
    assert downstream_of(DIAMOND, ["extract"]) == {"a", "b", "load"}
    assert upstream_of(DIAMOND, ["extract"]) == downstream_of(DIAMOND, ["load"]) == set()
    assert downstream_of(DIAMOND, ["a", "b"]) == {"load"}


def test_the_roots_of_flows_come_after_nothing() -> None:
    assert roots(DIAMOND, ["load"]) == {"extract"}
    assert roots(TWO_ROOTS, ["end"]) == {"x", "y"}
    assert roots(TWO_ROOTS, ["x1"]) == {"x"}


def test_what_is_missing_is_what_has_not_succeeded() -> None:
    assert missing(DIAMOND, "load", []) == ["a", "b"]
    assert missing(DIAMOND, "load", ["a", "extract"]) == ["b"]
    assert missing(DIAMOND, "load", ["a", "b"]) == []
    assert missing(DIAMOND, "extract", []) == []


@pytest.mark.parametrize(
    ("graph", "name", "members", "never"),
    [
        (DIAMOND, "b", {"extract", "a"}, False),
        (DIAMOND, "b", {"a"}, True),
        (DIAMOND, "extract", {"a"}, True),
        (TWO_ROOTS, "y", {"x", "x1"}, False),
        (TWO_ROOTS, "y1", {"x", "x1"}, False),
        (TWO_ROOTS, "y1", {"x1"}, True),
        (TWO_ROOTS, "y1", {"x1", "y"}, False),
    ],
)
def test_a_task_comes_when_one_before_it_is_there_or_may_join(
    graph: dict[str, tuple[str, ...]], name: str, members: set[str], never: bool
) -> None:
    assert cannot_run(graph, name, members) is never


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        (DIAMOND, None),
        ({"a": ("a",)}, ["a", "a"]),
        ({"a": ("b",), "b": ("a",)}, ["a", "b", "a"]),
        ({"a": ("c",), "b": ("a",), "c": ("b",)}, ["a", "b", "c", "a"]),
        ({"a": ("x", "c"), "x": (), "b": ("a", "x"), "c": ("b",)}, ["a", "b", "c", "a"]),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, None),
    ],
)
def test_a_circle_is_named_in_its_order(graph: dict[str, tuple[str, ...]], circle: list[str] | None) -> None:
    found = find_cycle(graph, "a")
    assert found == circle
    for earlier, later in pairwise(found or []):
        assert earlier in graph[later]


def test_a_long_chain_is_no_deeper_than_it_is_long() -> None:
    chain = {f"t{number}": (f"t{number - 1}",) for number in range(1, 5000)} | {"t0": ()}
    assert find_cycle(chain, "t4999") is None
    assert len(upstream_of(chain, ["t4999"])) == 4999


def test_circles_are_found_wherever_they_are() -> None:
    graph: dict[str, tuple[str, ...]] = {"x": ("y", "load"), "y": ("z",), "z": ("x",), **DIAMOND}
    graph |= {"behind": ("x", "itself"), "itself": ("itself",), "gone": ("nobody",)}
    found = list(cycles(graph))
    assert sorted(len(circle) for circle in found) == [2, 4]
    for circle in found:
        assert circle[0] == circle[-1]
        assert all(up in graph[down] for up, down in pairwise(circle))
    assert list(cycles(DIAMOND)) == list(cycles({})) == []


def test_names_come_after_those_they_depend_on() -> None:
    graph = {"report": ["load", "clean"], "clean": ["load"], "load": [], "alone": ["elsewhere"]}
    assert groups_in_order(graph) == [["load"], ["clean"], ["report"], ["alone"]]


def test_names_that_depend_on_each_other_are_one_group() -> None:
    graph = {"d": ["b"], "a": ["b"], "b": ["c"], "c": ["a"], "self": ["self"]}
    (circle, *rest) = groups_in_order(graph)
    assert sorted(circle) == ["a", "b", "c"]
    assert rest == [["d"], ["self"]]


def test_a_long_chain_is_put_in_order() -> None:
    chain = {str(number): [str(number + 1)] for number in range(20_000)}
    assert groups_in_order(chain)[0] == ["19999"]


@given(st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from("abcdefg"), max_size=4)))
def test_groups_are_the_circles_of_any_graph_in_order(graph: dict[str, set[str]]) -> None:
    groups = groups_in_order(graph)
    assert sorted(name for group in groups for name in group) == sorted(graph)
    place = {name: at for at, group in enumerate(groups) for name in group}
    for name in graph:
        reached = upstream_of(graph, [name])
        assert all(place[each] <= place[name] for each in reached if each in graph)
        together = {each for each in reached if name in upstream_of(graph, [each])} | {name}
        assert set(groups[place[name]]) == together
