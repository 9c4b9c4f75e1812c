"""docs/crontabs.md is true: examples, options and names."""

import re
from pathlib import Path

import pytest

from dcron.crontabfile import read
from dcron.fields import BY_DIRECTIVE

DOCS = (Path(__file__).parents[3] / "docs" / "crontabs.md").read_text()


@pytest.mark.parametrize("example", re.findall(r"^```crontab\n(.*?)^```", DOCS, re.DOTALL | re.MULTILINE))
def test_each_example_can_be_read_without_a_warning(example: str) -> None:
    crontab = read(example, source="docs", timezone="UTC")
    assert crontab.definitions
    assert not crontab.warnings


@pytest.mark.parametrize("key", [key for key, field in BY_DIRECTIVE.items() if not field.is_option])
def test_each_option_that_add_does_not_have_is_explained(key: str) -> None:
    assert re.search(rf"^\|.*`{key}\b", DOCS, re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "command", "name"),
    re.findall(r"^\| (?:in `(/[^`]*)`: )?`([^`]+)` \| `([^`]+)` \|$", DOCS, re.MULTILINE),
)
def test_each_name_in_the_table_is_what_comes_out(source: str, command: str, name: str) -> None:
    text = f"@daily {'root ' if source else ''}{command}\n"
    (task,) = read(text, source=source or "-", timezone="UTC", system=bool(source)).definitions
    assert task.name == name
