"""Write the table of task options in docs/cli.md from the registry of fields.

Run it after a change of src/dcron/fields/registry.py: `python -m scripts.option_table`.
"""

import re
from pathlib import Path

from dcron.fields import OPTIONS, Field

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_TABLE = re.compile(r"(?<=<!-- scripts/option_table.py writes this table -->\n).*?(?=\n\n)", re.DOTALL)


def table() -> str:
    """Return the table, in Markdown."""
    return "\n".join(["| option | meaning |", "|---|---|", *map(_row, OPTIONS)])


def written(page: str) -> str:
    """Return the page with the table as it should be. Raises ValueError if the page has no place for it."""
    text, count = _TABLE.subn(lambda _: table(), page)
    if count != 1:
        raise ValueError("the page needs one marker above the table")
    return text


def _row(field: Field) -> str:
    cells = (f"`{_spelling(field)}`", f"{field.option_help} {field.details}".strip())
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _spelling(field: Field) -> str:
    if field.kind.typed is bool:
        return f"--{field.option}`, `--no-{field.option}"
    return f"{f'{field.short}, ' if field.short else ''}--{field.option} {field.metavar}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
