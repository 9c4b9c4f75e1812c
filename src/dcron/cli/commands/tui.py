"""None"""

import os
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli.options import Db
from dcron.cli.screen import require_screen, show

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


def command(
    readonly: Annotated[bool, typer.Option("--readonly", help="Look only: no key changes anything.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Grey only, as with $NO_COLOR.")] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal, for selecting text.")
    ] = False,
    db: Db = None,
) -> None:
    """See everything, change anything, on one screen.

    `dcron` alone opens it too. ? shows the keys, q leaves. Everything it shows and does has a command of
    its own, which is told after each act.
    """
    require_screen()
    if no_color:
        os.environ["NO_COLOR"] = "1"
    from dcron.cli.file_warnings import print_distrust
    from dcron.config import database_url, load_config
    from dcron.database.url import parse_url
    from dcron.tui.app import DcronApp
    from dcron.tui.settings import settings_of

    config = load_config()
    address = parse_url(database_url(db, config))
    print_distrust(config, address)
    settings = settings_of(config, address.place, readonly=readonly)
    app = DcronApp(settings, lambda: _connect(db, readonly=readonly), _zone)
    show(app, mouse=config.tui.mouse and not no_mouse)


def _connect(db: str | None, *, readonly: bool) -> "Crontab":
    """The crontab in force, on connections of its own, which end with the program."""
    from dcron.cli.context import new_database
    from dcron.config import actor
    from dcron.services.crontab import Crontab

    return Crontab(new_database(db, readonly=readonly), actor(), readonly=readonly)


def _zone() -> tzinfo:
    from dcron.cli.context import own_zone
    from dcron.schedule import zone

    return zone(own_zone())
