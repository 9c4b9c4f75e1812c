"""`dump`: write the crontab without its history to a file."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, argument
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.running.context import opened_crontab
from dcron.errors import Refused
from dcron.presentation.humanize import plural


def command(
    file: Annotated[str | None, argument("FILE", "File to write [default: stdout].")] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Write the whole crontab, without its history, to one file.

    \b
    dcron dump /var/backups/dcron.json

    The file has the tasks with their pauses and next runs, one-offs, calendars, queue limits and settings.
    `dcron restore` reads it on either kind of database. Only you can read the file, because it holds the
    environments of tasks.
    """
    from dcron.sources.dump import write

    with opened_crontab(db) as crontab:
        found = services.changes.restored.DumpService(crontab).dump()
    text = write(found)
    if file is None or file == "-":
        sys.stdout.write(text)
        return
    _replace_file(Path(file), text)
    if as_json:
        counts = {"task_count": len(found.tasks), "calendar_count": len(found.calendars)}
        console.emit(make("dumped", file=file, **counts))
        return
    tasks, calendars = plural(len(found.tasks), "task"), plural(len(found.calendars), "calendar")
    console.note(f"{file}: {tasks}, {calendars}")


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
