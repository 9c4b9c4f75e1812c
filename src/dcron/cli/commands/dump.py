"""`dump`: write the crontab without its history to a file."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db
from dcron.errors import Refused


def command(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="File to write [default: stdout].", show_default=False),
    ] = None,
    db: Db = None,
) -> None:
    """Write the whole crontab, without its history, to one file.

    \b
    dcron dump /var/backups/dcron.json

    The file has the tasks with their pauses and next runs, one-offs, calendars, queue limits and settings.
    `dcron restore` reads it on either kind of database. Only you can read the file, because it holds the
    environments of tasks.
    """
    from dcron.dumpfile import write
    from dcron.services.dumping import DumpService

    with opened_crontab(db) as crontab:
        found = DumpService(crontab).dump()
    text = write(found)
    if file is None or file == "-":
        sys.stdout.write(text)
        return
    _replace_file(Path(file), text)
    console.note(f"{file}: {len(found.tasks):,} tasks, {len(found.calendars):,} calendars")


def _replace_file(path: Path, text: str) -> None:
    """Write the file atomically, readable only by its owner. Raises Refused."""
    temporary = None
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # it has mode 0600
        with os.fdopen(number, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise Refused(f"cannot write {path}: {error.strerror}") from None
