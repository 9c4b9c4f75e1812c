"""Whether there is a terminal for the TUI, and how it is shown."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from dcron.errors import ExitCode, Refused

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp


def show(app: "DcronApp", *, mouse: bool = True) -> None:
    """Run the screen until it is left. Raises what it could not go on with."""
    error = app.run(mouse=mouse)
    if error:
        raise error
    if app.return_code:  # it broke, and has told how
        raise typer.Exit(ExitCode.FAILED)


def require_screen() -> None:
    """Raise Refused where there is nothing to draw on, or nobody to press a key."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise Refused("tui needs a terminal; `dcron list`, `dcron runs` and `dcron nodes` print without one")
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise Refused("tui cannot draw on a terminal that calls itself dumb ($TERM); use `dcron list`")


def has_screen() -> bool:
    """Whether `tui` would start."""
    try:
        require_screen()
    except Refused:
        return False
    return True
