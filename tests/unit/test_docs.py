"""The documentation is true: links resolve, and the page of the command line lists what exists."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from dcron.cli.app import app
from dcron.cli.running.other_words import ALIASES
from dcron.errors import ExitCode

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text()
_LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"`([a-z0-9_./]*[a-z0-9_]\.py)`")
_OLD_OPTIONS = ("--id", "--message", "--note", "--to")
_OTHER_OPTIONS = {"--help", "--full", "--create-home", "--from-stdin", "--month", "--quiet", *_OLD_OPTIONS}
"""`--help`, options of other programs in examples, and what the page says of the options of 0.1."""
_FOR_DEVELOPERS = ("adr", "architecture.md", "benchmarks.md", "contributing.md", "reliability.md")
"""Pages with options of the test programs."""

PAGES_FOR_USERS = [page for page in PAGES if not set(_FOR_DEVELOPERS) & set(page.parts)]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Yield each verb with its long options, hidden ones left out."""
    options = {
        option
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }
    yield path, options
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), (*path, name))


COMMANDS = dict(_commands(get_command(app)))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_inside_the_repository_resolves(page: Path) -> None:
    """A link names a file that exists and, after `#`, one of its headings."""
    broken = [target for target in _links(page) if not _resolves(page, target)]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    """`store/listings.py` is below `src/dcron`, other paths below the root; a bare `rows.py` is somewhere."""
    named = set(_SOURCE.findall(_CODE_BLOCK.sub("", page.read_text())))
    assert sorted(name for name in named if not _is_source(name)) == []


def test_the_page_on_architecture_has_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name for layer in contracts[0]["layers"] for name in layer.split(" | ")]
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Layers")[2].partition("##")[0]
    rows = "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`(\w+)(?:/|\.py)`", rows)) == sorted(set(layers) - {"__main__"})


def test_no_message_points_to_a_page_that_a_wheel_lacks() -> None:
    """Docstrings may name pages: their readers have the repository. So may the table of options."""
    found = [
        (path.name, constant.value)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for constant in _messages(ast.parse(path.read_text()))
        if re.search(r"(?<![\w/.])(?<!\]\()(?:docs/|\w+\.md\b|README\b)", constant.value)
    ]
    assert found == [("files.py", "README")], "only the names of files that are not crontabs"


def _messages(tree: ast.Module) -> Iterator[Any]:
    """Yield the texts of a module that are not docstrings."""
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in alone:
            yield each


@pytest.mark.parametrize("page", PAGES_FOR_USERS, ids=_name)
def test_no_page_names_an_option_that_does_not_exist(page: Path) -> None:
    known = {option for options in COMMANDS.values() for option in options} | _OTHER_OPTIONS
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", page.read_text()))
    assert sorted(named - known) == []


def test_no_message_names_a_verb_or_an_option_that_does_not_exist() -> None:
    """In messages and docstrings, commands of dcron are between backticks."""
    commands = [
        (source.name, command)
        for source in sorted((ROOT / "src").rglob("*.py"))
        for command in re.findall(r"`dcron ([^`\n]+)`", source.read_text())
    ]
    assert len(commands) > 100
    assert [(name, command) for name, command in commands if not _exists(command)] == []


def test_every_verb_is_on_the_page_of_the_command_line() -> None:
    """`config set` may be written `dcron config list|set|unset`."""
    missing = [" ".join(verb) for verb in COMMANDS if verb and not _documents(verb)]
    assert missing == []


def test_every_option_is_on_the_page_of_the_command_line() -> None:
    missing = sorted(
        f"{' '.join(verb)} {option}"
        for verb, options in COMMANDS.items()
        for option in options
        if not re.search(rf"(?<![\w-]){option}(?![\w-])", CLI_PAGE)
    )
    assert missing == []


def test_every_exit_code_is_on_the_page_of_the_command_line() -> None:
    table = CLI_PAGE.partition("## Exit codes")[2].partition("##")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == set(ExitCode)


def _exists(command: str) -> bool:
    """Return whether the words begin with a verb that has all their long options."""
    words = command.split()
    if words[0] in ("help", "VERB", *ALIASES):
        return True
    verb = next((tuple(words[:size]) for size in (2, 1, 0) if tuple(words[:size]) in COMMANDS), ())
    takes_command = verb in {("add",), ("at",)}
    named = () if takes_command else re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", command)
    return (bool(verb) or words[0].startswith(("{", "-"))) and set(named) <= COMMANDS[verb] | {"--help"}


def _documents(verb: tuple[str, ...]) -> bool:
    *group, name = verb
    before = " ".join(["dcron", *group, ""])
    return re.search(rf"`{before}(?:[\w\\]+\|)*{name}\b", CLI_PAGE) is not None


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


def _is_source(name: str) -> bool:
    if "/" not in name:
        return any((ROOT / "src" / "dcron").rglob(name))
    return any((root / name).exists() for root in (ROOT / "src" / "dcron", ROOT))
