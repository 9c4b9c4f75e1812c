"""The examples of docs/crontabs.md are read as the page says."""

import re
from pathlib import Path

from dcron.sources import parse

PAGE = Path(__file__).parents[3] / "docs" / "crontabs.md"


def test_the_examples_in_json_and_toml_are_read() -> None:
    for format in ("json", "toml"):
        [text] = re.findall(rf"```{format}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        source = parse(text, file="example", timezone="UTC")
        dump = source.tasks[0].definition
        assert (dump.name, dump.timezone, dump.timeout) == ("nightly-dump", "Europe/Berlin", 1800)
