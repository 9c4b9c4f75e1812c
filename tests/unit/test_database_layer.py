"""Only one package knows which database is in use."""

import re
from pathlib import Path

import dcron

SOURCE = Path(dcron.__file__).parent
KNOWING = ("database", "migrations")
TELLTALE = re.compile(r"is_sqlite|dialect\.name|\bsqlite3\b|\bpsycopg\b|get_backend_name")


def asking(root: Path) -> list[str]:
    """Each line outside the seam that asks which database it is."""
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in KNOWING
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if TELLTALE.search(line)
    ]


def test_only_the_database_layer_asks_which_database_it_is() -> None:
    assert asking(SOURCE) == []


def test_asking_elsewhere_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "runs.py").write_text("if database.is_sqlite:\n    import sqlite3\n")
    (tmp_path / "database").mkdir()
    (tmp_path / "database" / "engine.py").write_text("import sqlite3\n")
    assert asking(tmp_path) == ["store/runs.py:1: if database.is_sqlite:", "store/runs.py:2: import sqlite3"]
