"""`tui`: open the full-screen view."""

import os
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from typing import Annotated

import typer

from dcron import services
from dcron.cli.asking.options import Db, flag
from dcron.cli.running.context import new_database, own_zone
from dcron.cli.running.file_warnings import print_distrust
from dcron.cli.running.screen import require_screen, show
from dcron.schedule.zones import zone


def command(
    ctx: typer.Context,
    readonly: Annotated[bool, flag("--readonly", "Disable all keys that change something.")] = False,
    no_color: Annotated[bool, flag("--no-color", "Use no colors, as with $NO_COLOR.")] = False,
    no_mouse: Annotated[bool, flag("--no-mouse", "Leave the mouse to the terminal, to select text.")] = False,
    db: Db = None,
) -> None:
    """Open the full-screen view of tasks, runs and nodes.

    `dcron` alone opens it, too. Press ? for the keys and q to quit. After each action the TUI shows the
    command line that does the same.
    """
    require_screen()
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from dcron.cli.asking.verb_completion import words_for
    from dcron.config.files import database_url, load_config, tui_state_file
    from dcron.database.url import parse_url
    from dcron.tui.app import DcronApp
    from dcron.tui.look.settings import settings_of

    config = load_config()
    url = database_url(db, config)
    address = parse_url(url)
    print_distrust(config, address)
    settings = replace(
        settings_of(config, address.place, readonly=readonly),
        environment=_environment(url, db, has_context=config.context is not None),
        complete_verb=partial(words_for, ctx.find_root().command),
        state_file=tui_state_file(),
    )
    app = DcronApp(settings, lambda: _connect(db, readonly=readonly), _zone)
    show(app, mouse=config.tui.mouse and not no_mouse)


def _environment(url: str, db: str | None, *, has_context: bool) -> dict[str, str] | None:
    """Return what `dcron` needs to use the same database; None for another one than the context's.

    $DCRON_DB would be stronger than the context, and than its protection.
    """
    if has_context:
        return {} if db is None else None
    return {"DCRON_DB": url}


def _connect(db: str | None, *, readonly: bool) -> "services.crontab.Crontab":
    """Return the crontab on its own connections. They end with the process."""
    from dcron.config.files import actor

    return services.crontab.Crontab(new_database(db, readonly=readonly), actor(), readonly=readonly)


def _zone() -> tzinfo:
    return zone(own_zone())
