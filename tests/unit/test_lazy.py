"""Packages that load their modules when they are first named."""

import subprocess
import sys
from pathlib import Path

import pytest

from dcron import services
from dcron.lazy import submodules


def test_a_module_is_loaded_when_it_is_named() -> None:
    program = (
        "import sys; from dcron import services; before = 'dcron.services.undo' in sys.modules\n"
        "services.undo.Undo; print(before, 'dcron.services.undo' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout == "False True\n"


def test_a_name_that_is_no_module_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        services.nonsense  # type: ignore[attr-defined]  # noqa: B018 the access is tested


def test_a_failed_import_of_a_module_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_package").mkdir()
    (tmp_path / "late_package" / "__init__.py").touch()
    (tmp_path / "late_package" / "broken.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        submodules("late_package")("broken")
