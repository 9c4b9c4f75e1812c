"""The word that was probably meant."""

import pytest

from dcron.values.similar import did_you_mean, similar

WORDS = ("report", "resume", "restore", "runs")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("repotr", "; did you mean report?"),
        ("xyz", "; there are four"),
        ("repotr" + "x" * 100_000, "; there are four"),
    ],
)
def test_a_similar_word_is_suggested_else_what_there_is(typed: str, expected: str) -> None:
    assert did_you_mean(typed, WORDS, "there are four") == expected


def test_without_an_alternative_nothing_is_said() -> None:
    assert did_you_mean("xyz", WORDS) == ""
    assert did_you_mean("xyz", ()) == ""


def test_several_words_are_alternatives_the_best_first() -> None:
    assert similar("restume", WORDS, count=2) == ["resume", "restore"]
    assert did_you_mean("restume", WORDS, count=2) == "; did you mean resume or restore?"


def test_a_higher_cutoff_suggests_less() -> None:
    assert similar("repor", WORDS, cutoff=0.9) == ["report"]
    assert similar("rport", WORDS, cutoff=0.95) == []
