"""Every service method that writes to the database also writes to the audit log."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dcron

SERVICES = Path(dcron.__file__).parent / "services"
RECORDS = {
    "audit_log",
    "tasks_deleted_by_sql",
    "TaskWriter",
    "write_changes",
    "recorded_values",
    "_record_run",
}
"""Names that write changes: the audit log itself, its finder of deletions, and the writer of tasks."""
WITHOUT = {
    "channels.Channels.request_test": "a test message is a notification of its own",
    "channels.Channels.withdraw_test": "a test message is a notification of its own",
    "retention.Retention._holding": "prunes: deletes history, and what it dismisses is recorded there",
    "retention.Retention._renew": "prunes",
    "retention.Retention._let_go": "prunes",
    "runs.triggers.Triggers.emit": "an event is a row of its own, with who sent it",
}


def functions(root: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield every function below the folder, by module, class and name."""
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield f"{module}.{node.name}", node
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef):
                        yield f"{module}.{node.name}.{each.name}", each


def names_in(function: ast.FunctionDef) -> set[str]:
    """Return the names and attributes that the function mentions."""
    found = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}


def writes(function: ast.FunctionDef) -> bool:
    """Return whether the function opens a transaction that writes."""
    return any("database.write()" in ast.unparse(node) for node in ast.walk(function))


def module_of(path: str) -> str:
    """Return the module of a function: what comes before its class, or before its name."""
    return "".join(re.findall(r"^[a-z_.]+(?=\.)", path))


def without_record(root: Path) -> list[str]:
    """Return the functions that write, and neither record it nor call one of their module that does."""
    found = dict(functions(root))
    recording = {path for path, function in found.items() if names_in(function) & RECORDS}
    while True:
        known = {(module_of(path), path.rpartition(".")[2]) for path in recording}
        more = {
            path
            for path, function in found.items()
            if path not in recording and any((module_of(path), name) in known for name in names_in(function))
        }
        if not more:
            break
        recording |= more
    return [path for path, function in found.items() if writes(function) and path not in recording]


def test_every_service_method_that_writes_records_it() -> None:
    assert [path for path in without_record(SERVICES) if path not in WITHOUT] == []


def test_a_method_that_records_nothing_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n"
        "    def change(self):\n"
        "        with self.database.write() as connection:\n"
        "            tasks.remove(connection)\n"
        "    def noted(self):\n"
        "        with self.database.write() as connection:\n"
        "            self._note(connection)\n"
        "    def _note(self, connection):\n"
        "        audit_log.record(connection)\n"
    )
    assert without_record(tmp_path) == ["bad.Bad.change"]
