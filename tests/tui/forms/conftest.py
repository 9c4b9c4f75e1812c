"""Forms on an empty database, and an editor that is a script."""

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dcron.tui.app import DcronApp


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes $EDITOR a script: each time it is opened, the next of these shell commands, on file "$1"."""

    @contextmanager
    def suspend(_: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(DcronApp, "suspend", suspend)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what is kept stays with the test

    def becomes(*commands: str) -> Path:
        script = tmp_path / "editor"
        cases = "".join(f"{number}) {command};;\n" for number, command in enumerate(commands, 1))
        script.write_text(
            f'#!/bin/sh\nfor last; do :; done; set -- "$last"\necho >> "{tmp_path}/times"\n'
            f'cp "$1" "{tmp_path}/shown-$(wc -l < "{tmp_path}/times")"\n'
            f'case $(wc -l < "{tmp_path}/times") in\n{cases}esac\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("EDITOR", str(script))
        return tmp_path

    monkeypatch.delenv("VISUAL", raising=False)
    return becomes
