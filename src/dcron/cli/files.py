"""`import` and `export`: the crontab as a file."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab, own_zone
from dcron.cli.parameters import Db, Json
from dcron.errors import CrontabFileError
from dcron.safetext import safe_lines
from dcron.typed import read_text

if TYPE_CHECKING:
    from dcron.crontabfile import CrontabFile
    from dcron.services.crontab import Imported

SHOWN = 20
"""Names of one kind that are printed; the rest are counted."""


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A crontab, or - for stdin.", show_default=False)
    ],
    system: Annotated[
        bool, typer.Option("--system", help="Each line names an account, as in /etc/crontab and /etc/cron.d.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Bring in a crontab file.

    Adds what is new, changes what differs, by name; removes nothing. Not a line of a bad file is imported.

    \b
    crontab -l | dcron import -
    dcron import --system /etc/cron.d/sysstat --dry-run
    """
    content = _read(file, system=system)
    done = _import(content, file, db, dry_run=dry_run)
    if as_json:
        warnings = [{"line": notice.line, "message": notice.message} for notice in content.warnings]
        kinds = {"added": done.added, "changed": done.changed, "unchanged": done.unchanged}
        printing.emit({kind: list(names) for kind, names in kinds.items()} | {"warnings": warnings})
    else:
        _tell(done, dry_run=dry_run)
    for notice in content.warnings:
        printing.note(f"{_source(file)}:{notice.line}: warning: {notice.message}")


def export(
    form: Annotated[
        Literal["crontab"], typer.Option("--format", metavar="crontab", help="The form of the file.")
    ] = "crontab",
    db: Db = None,
) -> None:
    """Print the crontab as a file. `dcron import` reads it back; one-offs are left out."""
    from dcron.crontabfile import write

    with opened_crontab(db) as crontab:
        text = write(crontab.export_lines())
    text = text.encode(errors="replace").decode()  # a row that was written by hand may hold any bytes
    sys.stdout.write(safe_lines(text) if printing.is_terminal() else text)


def _read(file: str, *, system: bool) -> "CrontabFile":
    from dcron.crontabfile import MAX_BYTES, read

    text = read_text(file, "import", MAX_BYTES)
    return read(text, source=_source(file), timezone=own_zone(), system=system)


def _import(content: "CrontabFile", file: str, db: str | None, *, dry_run: bool) -> "Imported":
    from dcron.services.crontab import BadLines

    with opened_crontab(db) as crontab:
        try:
            return crontab.import_lines(content.definitions, dry_run=dry_run)
        except BadLines as bad:
            places = sorted((content.lines.get(name, 1), told) for name, told in bad.problems.items())
            source = _source(file)
            raise CrontabFileError("\n".join(f"{source}:{line}:1: {told}" for line, told in places)) from None


def _source(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _tell(done: "Imported", *, dry_run: bool) -> None:
    for kind, names in (("added", done.added), ("changed", done.changed)):
        for name in names[:SHOWN]:
            printing.data(f"{kind:<9}  {name}")
        if len(names) > SHOWN:
            printing.data(f"{kind:<9}  … and {len(names) - SHOWN:,} more")
    would = "would be " if dry_run else ""
    counts = [f"{len(done.added):,} {would}added", f"{len(done.changed):,} {would}changed"]
    printing.data(", ".join([*counts, f"{len(done.unchanged):,} unchanged"]))
