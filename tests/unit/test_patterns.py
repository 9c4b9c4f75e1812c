"""Patterns match the same on every Python that dcron runs on."""

import re
from pathlib import Path

import dcron

SOURCES = sorted(Path(dcron.__file__).parent.rglob("*.py"))
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 leaves the wrong position after such a group; a class, as in `[ab]*+`, is safe."""
    lines = [(path.name, line.strip()) for path in SOURCES for line in path.read_text().splitlines()]
    assert [each for each in lines if _POSSESSIVE_GROUP.search(each[1])] == []
