"""The graph around a task, as `view` draws it."""

from dcron.presentation.graph import MOST_LINES, graph_lines, steps
from tests.support.cli import Dcron

DIAMOND = {
    "extract": (),
    "clean": ("extract",),
    "join": ("extract",),
    "stats": ("extract",),
    "load": ("clean", "join", "stats"),
}


def test_a_diamond_is_three_lines_with_the_task_in_brackets() -> None:
    assert graph_lines(DIAMOND, "join") == [
        "extract",
        "  -> clean, [join], stats",
        "    -> load",
    ]


def test_what_does_not_wait_for_all_of_the_step_before_says_for_what() -> None:
    graph = {**DIAMOND, "mail": ("stats",), "report": ("load", "extract"), "prices": (), "load": ("clean",)}
    assert graph_lines(graph, "report") == [
        "extract, prices",
        "  -> clean, join, stats   (after extract)",
        "    -> load   (after clean)",
        "    -> mail   (after stats)",
        "      -> [report]   (after extract, load)",
    ]


def test_each_step_needs_only_those_before_it() -> None:
    assert steps(DIAMOND) == [["extract"], ["clean", "join", "stats"], ["load"]]
    assert steps({}) == []


def test_a_circle_written_by_hand_is_one_step() -> None:
    circle = {"a": ("c",), "b": ("a",), "c": ("b",), "d": ("c",), "z": ()}
    assert steps(circle) == [["z"], ["a", "b", "c", "d"]]
    assert "[b]" in " ".join(graph_lines(circle, "b"))


def test_a_large_graph_shows_what_is_near_the_task_and_stays_short() -> None:
    chain = {f"t{number:03}": (f"t{number - 1:03}",) if number else () for number in range(100)}
    for name in ("t000", "t050", "t099"):
        *shown, last = graph_lines(chain, name)
        assert (len(shown), last) == (MOST_LINES, "and 60 more lines")
        assert any(f"[{name}]" in line for line in shown)
    aside = {f"s{number:03}": ("t000", f"t{number:03}") for number in range(1, 30)}
    short = dict(list(chain.items())[:30]) | aside
    near = graph_lines(short, "t029")
    assert (len(near), near[-2]) == (31, "  " * 29 + "-> [t029]")
    fan = {"root": (), **{f"t{number:03}": ("root",) for number in range(500)}}
    assert graph_lines(fan, "t321")[1].startswith("  -> [t321], t000, t001")
    assert graph_lines(fan, "t321")[1].endswith(" and 488 more")


def test_view_draws_the_graph_of_a_task_that_has_one(dcron: Dcron) -> None:
    dcron.done("add", "-n", "extract", "@daily", "true")
    for name in ("clean", "join", "stats"):
        dcron.done("add", "-n", name, "@after extract", "true")
    dcron.done("add", "-n", "load", "@after clean,join,stats", "true")
    dcron.done("add", "-n", "alone", "@daily", "true")
    assert (
        "graph        extract\n               -> clean, join, stats\n                 -> [load]\n"
    ) in dcron.done("view", "load").out
    assert dcron.done("view", "clean", "--json").json["graph"] == {
        name: list(earlier) for name, earlier in DIAMOND.items()
    }
    assert "graph" not in dcron.done("view", "alone").out
    assert dcron.done("view", "alone", "--json").json["graph"] == {}
