"""A text that a user edits: error marks, differences, and renamed tasks distinguished from new ones."""

from dcron.crontabfile import read
from dcron.crontabfile.revising import GREETING, MARK, difference, greet, mark, pair_renamed, unmark
from dcron.model import Definition


def line(name: str, schedule: str = "@daily", command: str = "true", **fields: object) -> Definition:
    return Definition(name=name, schedule=schedule, timezone="UTC", command=command, **fields)  # type: ignore[arg-type]


def test_a_greeted_text_reads_back_as_the_same_tasks() -> None:
    lines = (line("one", describe="about it"), line("two", "@every 5s", "a\nb"))
    for whole in (True, False):
        text = greet(lines, whole=whole)
        assert text.startswith(GREETING)
        assert read(text, source="text", timezone="Asia/Tokyo").definitions == lines
    assert read(greet([], whole=True), source="text", timezone="UTC").definitions == ()


def test_marks_go_on_top_and_name_the_new_line_numbers() -> None:
    text = "a\nb\nc\n"
    marked, at = mark(text, [(2, "wrong\n  here"), (3, "too")])
    lines = marked.split("\n")
    assert lines[at - 1] == "b"
    assert lines[1:3] == [f"{MARK}line 5: wrong here", f"{MARK}line 6: too"]
    assert unmark(marked) == text


def test_of_many_mistakes_the_first_are_named_and_the_rest_counted() -> None:
    marked, at = mark("a\n" * 50, [(number, "x" * 1000) for number in range(1, 51)])
    assert marked.split("\n")[at - 1] == "a"
    assert f"{MARK}and 30 more\n" in marked
    assert max(map(len, marked.split("\n"))) < 400
    assert unmark(marked) == "a\n" * 50


def test_only_marks_on_top_are_taken_away() -> None:
    for text in ("", "a\n", f"a\n{MARK}kept\n", "# a comment\n"):
        assert unmark(text) == text
        assert unmark(f"{MARK}one\n{MARK}two\n{text}") == text
    assert unmark(f"{MARK}without an end") == ""
    assert unmark(f"{MARK}x\n" * 200_000 + "a") == "a"


def test_a_difference_shows_the_whole_task_with_signs() -> None:
    assert difference(line("one"), line("one", "@weekly")) == [
        " CRON_TZ=UTC",
        " #dcron: name=one",
        "-@daily true",
        "+@weekly true",
    ]
    assert difference(None, line("one")) == ["+CRON_TZ=UTC", "+#dcron: name=one", "+@daily true"]
    assert difference(line("one"), None) == ["-CRON_TZ=UTC", "-#dcron: name=one", "-@daily true"]
    assert difference(line("one"), line("one")) == []


def test_a_new_name_on_the_same_task_is_a_renamed_task() -> None:
    gone = [line("a", command="x"), line("b", command="y"), line("c", command="z")]
    new = [line("bb", command="y"), line("cc", "@weekly", command="z"), line("d", command="other")]
    assert pair_renamed(gone, new) == {"bb": "b", "cc": "c"}


def test_which_of_several_was_renamed_is_not_guessed() -> None:
    gone = [line("a", "@daily"), line("b", "@weekly")]
    assert pair_renamed(gone, [line("c", "@monthly")]) == {}
    assert pair_renamed(gone, [line("c", "@weekly")]) == {"c": "b"}
    twins = [line("a"), line("b")]
    assert pair_renamed(twins, [line("c"), line("d")]) == {"c": "a", "d": "b"}
