"""`doctor`: what needs an operator's attention."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import opened_database, require_named_file
from dcron.cli.options import Db, Json
from dcron.errors import ExitCode
from dcron.safetext import safe

if TYPE_CHECKING:
    from dcron.services.doctor import Finding


def command(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read a whole SQLite file for damage: about 1 s for each GB.")
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Look for what needs an operator's attention.

    \b
    dcron doctor
    dcron doctor --deep
    dcron doctor --json

    It examines the nodes, the tasks, the database and this machine, and changes nothing. Each finding is one
    line: what it is, what it causes, what to do. The exit code is 1 if there are findings.
    """
    from dcron.services.doctor import Doctor

    with opened_database(db) as database:
        require_named_file(database)
        found = Doctor(database).examine(deep=deep)
    if as_json:
        console.emit({"findings": list(map(_shape, found))})
    else:
        for finding in found:
            console.data(safe(f"{finding.code}: {finding.sentence}"))
        if not found:
            console.note("the doctor found nothing")
    if found:
        raise typer.Exit(ExitCode.FAILED)


def _shape(finding: "Finding") -> dict[str, Any]:
    return {
        "code": finding.code,
        "problem": finding.problem,
        "effect": finding.effect,
        "advice": finding.advice,
        "subjects": list(finding.subjects),
    }
