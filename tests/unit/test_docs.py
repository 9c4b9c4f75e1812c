"""The documentation points at things that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_the_repository_resolves(page: Path) -> None:
    """A link names a file that exists and, after `#`, one of its headings."""
    broken = [target for target in _links(page) if not _resolves(page, target)]
    assert broken == []


def _links(page: Path) -> list[str]:
    text = _CODE_BLOCK.sub("", page.read_text())
    targets = [first or second for first, second in _LINK.findall(text)]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def _resolves(page: Path, target: str) -> bool:
    path, _, fragment = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return False
    return not fragment or fragment in _anchors(file)


def _anchors(page: Path) -> set[str]:
    """Return the fragments that GitHub gives to the headings of a page."""
    text = _CODE_BLOCK.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
