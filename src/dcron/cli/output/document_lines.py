"""Write JSON documents a line each: as JSON, as CSV, or only their names."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from dcron.cli.output.documents import columns, own_name
from dcron.values.safe_text import safe


def lines(values: Iterable[Any], form: str) -> Iterator[str]:
    """Yield the documents as lines: JSON objects, the values of CSV, or names."""
    if form == "csv":
        yield from _csv(values)
    elif form == "name":
        for each in values:
            yield safe(each if isinstance(each, str) else str(each[own_name(each.kind)]))
    else:
        for each in values:
            yield json.dumps(each, separators=(",", ":"))


def _csv(values: Iterable[Any]) -> Iterator[str]:
    """Yield a line of titles and one for each row; texts are safe for terminals, as in a table."""
    titles: list[str] = []
    for each in values:
        if not titles:
            titles = ["name"] if isinstance(each, str) else columns(each.kind)
            yield _csv_line(titles)
        yield _csv_line([each] if isinstance(each, str) else [_cell(each.get(title)) for title in titles])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return safe(value if isinstance(value, str) else json.dumps(value))


def _csv_line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r").writerow(cells)
    return text.getvalue()
