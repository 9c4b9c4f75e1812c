"""A form on a real database, filled in by keys."""

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from dcron.tui.app import DcronApp
from dcron.tui.entries import LONGEST, ChoiceEntry
from dcron.tui.forms.form import Form
from dcron.tui.forms.rows import Row
from tests.tui.conftest import Screen, Stage


def form_of(screen: Screen) -> Form:
    assert isinstance(screen.app.screen, Form)
    return screen.app.screen


def row_of(screen: Screen, field: str) -> Row:
    return form_of(screen).row(field)


async def opened(screen: Screen, key: str) -> None:
    """Open a form by this key."""
    await screen.press(key)
    await screen.until(lambda: isinstance(screen.app.screen, Form))
    await screen.until(lambda: screen.app.focused is not None)


async def go(screen: Screen, field: str) -> None:
    """Go to this field."""
    row_of(screen, field).take_focus()
    await at(screen, field)


async def at(screen: Screen, field: str) -> None:
    """Wait until it is this field that is typed into."""
    await screen.until(lambda: row_of(screen, field).has_focus_within)


async def complains(screen: Screen, field: str, told: str) -> None:
    """Wait until this is said to be wrong with the field; nothing at all for nothing."""
    row = row_of(screen, field)
    await screen.until(lambda: told in row.error if told else not row.error)


async def fill(screen: Screen, **texts: str) -> None:
    """Write into fields as a person does: go there, and type."""
    for field, text in texts.items():
        await go(screen, field)
        widget = screen.app.focused
        if isinstance(widget, ChoiceEntry):
            while widget.value != text:
                await screen.press("right")
        else:
            assert isinstance(widget, Input)
            widget.value = ""
            await paste(screen, text)
            assert row_of(screen, field).text == text


async def paste(screen: Screen, text: str) -> None:
    widget = screen.app.focused
    assert isinstance(widget, Input)
    heard = len(widget.value)
    widget.post_message(events.Paste(text))
    if heard + len(text) <= LONGEST:
        await screen.until(lambda: not text or len(widget.value) > heard)


async def save(screen: Screen, *, sees: str) -> None:
    """Ask to save, see this in what would change, and agree."""
    await screen.press("ctrl+s")
    await screen.shows("goes on editing")
    await screen.shows(sees)
    await screen.press("enter")


@pytest.fixture
def sqlite_stage(tmp_path: Path) -> Iterator[Stage]:
    """An empty crontab, where the kind of database makes no difference."""
    stage = Stage(f"sqlite:///{tmp_path}/dcron.db")
    yield stage
    stage.database.close()


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
