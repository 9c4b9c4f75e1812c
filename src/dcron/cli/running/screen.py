"""Run the TUI on the terminal, for `tui` and `demo`."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from dcron.errors import ExitCode, Refused

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp


def show(app: "DcronApp", *, mouse: bool = True) -> None:
    """Run the TUI until the user quits. Raises the error that ended it."""
    error = app.run(mouse=mouse)
    if error:
        raise error
    if app.return_code:  # it crashed, and has printed the traceback
        raise typer.Exit(ExitCode.FAILED)


def require_screen() -> None:
    """Raise Refused without a terminal that can show the TUI."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Refused("tui needs a terminal; `dcron list`, `dcron runs` and `dcron nodes` work without one")
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise Refused("tui cannot draw on a dumb terminal ($TERM); use `dcron list`")


def has_screen() -> bool:
    """Return whether the TUI can start here."""
    try:
        require_screen()
    except Refused:
        return False
    return True
