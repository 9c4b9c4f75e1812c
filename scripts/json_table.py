"""Write the table of JSON documents in docs/cli.md from src/dcron/cli/output/documents.py.

Run it after a change of that file: `python -m scripts.json_table`.
"""

import re
from pathlib import Path

from dcron.cli.output.documents import shapes
from dcron.cli.running.json_help import verbs_of

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_TABLE = re.compile(r"(?<=<!-- scripts/json_table.py writes this table -->\n).*?(?=\n\n|\Z)", re.DOTALL)


def table() -> str:
    """Return the table, in Markdown."""
    return "\n".join(["| document | verbs | keys |", "|---|---|---|", *map(_row, shapes())])


def written(page: str) -> str:
    """Return the page with the table as it should be. Raises ValueError if the page has no place for it."""
    text, count = _TABLE.subn(lambda _: table(), page)
    if count != 1:
        raise ValueError("the page needs one marker above the table")
    return text


def _row(document: str) -> str:
    verbs = ", ".join(f"`{verb}`" for verb in verbs_of(document))
    shape = re.sub(r"=[\w.]+:", ":", " ".join(shapes()[document].split()))  # without the names in the program
    return f"| **{document}** | {verbs} | `{shape}` |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
