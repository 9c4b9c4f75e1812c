"""docs/schedules.md is true: examples, advice codes and forms."""

import re
from datetime import datetime
from pathlib import Path

import pytest

from dcron.schedule.lint import advise
from dcron.schedule.next_run import upcoming
from dcron.schedule.parser import parse
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
BLOCKS = re.findall(r"```text\n# (.*?)\n(.*?)```", PAGE, re.DOTALL)


def rendered(header: str) -> str:
    """The block below a header such as `30 2 * * *, Europe/Berlin, from 2027-03-27T00:00, --fold both`."""
    text, name, start, *option = header.split(", ")
    here = zone(name)
    after = datetime.fromisoformat(start.removeprefix("from ")).replace(tzinfo=here)
    rules = {
        "": Rules(),
        "--gap skip": Rules(gap="skip"),
        "--fold both": Rules(fold="both"),
    }["".join(option)]
    lines = [
        f"{each.local:%a %Y-%m-%d %H:%M %Z}  {each.at:%Y-%m-%dT%H:%MZ}  {each.note or ''}".rstrip()
        for each in upcoming(parse(text), here, after, rules, count=6)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(("header", "block"), BLOCKS, ids=[header for header, _ in BLOCKS])
def test_an_example_is_what_the_code_finds(header: str, block: str) -> None:
    assert len(block.splitlines()) >= 2
    assert rendered(header).startswith(block.rstrip())


def test_all_examples_are_found() -> None:
    assert len(BLOCKS) == PAGE.count("```") / 2 == 13


def test_every_code_of_advice_is_documented() -> None:
    source = Path(advise.__code__.co_filename).read_text()
    used = set(re.findall(r'Advice\(\s*"([a-z-]+)"', source))
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("## Advice")[2], re.MULTILINE))
    assert used == documented
    assert len(used) == 10


def test_the_forms_in_the_tables_can_be_read() -> None:
    table = PAGE.partition("## The language")[2].partition("A field is")[0]
    cells = re.findall(r"^\| (`.*?`) \|", table.replace("\\|", "¦"), re.MULTILINE)
    forms = [form.replace("¦", "|") for cell in cells for form in re.findall(r"`([^`]+)`", cell)]
    assert len(forms) == 17
    for form in forms:
        assert parse(form).text == form
