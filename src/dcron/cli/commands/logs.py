"""`logs`: print the output of a run."""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from dcron import services
from dcron.cli.asking.options import Db, Json, argument, flag, is_number, run_number
from dcron.cli.output import console
from dcron.cli.output.json_output import chunk_shape
from dcron.cli.output.run_output import JsonOutput, OutputPrinter, output_here
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.waiting import exit_code, pauses
from dcron.errors import ArchiveError, NotFound
from dcron.model import Run, RunState
from dcron.presentation.humanize import result
from dcron.values.lists import Chunk

Which = Annotated[str, argument("RUN|NAME", "Number of a run, or name of a task for its latest run.")]


def command(
    which: Which,
    follow: Annotated[
        bool,
        flag("-f", "--follow", "Follow the output until the run ends, and exit with the command's code."),
    ] = False,
    raw: Annotated[bool, flag("--raw", "Write escape sequences to a terminal, too.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Print what a run wrote; -f follows it. It has stdout and stderr, in order.

    \b
    dcron logs backup
    dcron logs -f backup
    dcron logs 8123 > backup.log

    On a terminal, escape sequences are removed. In a pipe or a file, every byte is kept.
    """
    with opened_crontab(db) as crontab:
        run, archived = _find(crontab, which, follow=follow)
        chunks = iter(archived) if archived is not None else _chunks(crontab, run, follow=follow)
        if as_json and not follow:
            console.emit_list(chunk_shape(chunk) for chunk in chunks if chunk)
        else:
            _write(chunks, JsonOutput() if as_json else output_here(raw=raw))
        if follow and archived is None:
            run = crontab.find_run(run.id)
        short = result(run, crontab.now())
        ended = _ending(run, short)
        if follow or ended != short:
            console.note(f"run {run.id} of {run.task}: {ended}")
    if follow:
        raise typer.Exit(exit_code(run))


def _find(
    crontab: "services.crontab.Crontab", which: str, *, follow: bool
) -> tuple[Run, Sequence[Chunk] | None]:
    """Return the run of this number, else a run of the task of this name, with its output if it is archived.

    Raises NotFound or ArchiveError.
    """
    if is_number(which):
        run_id = run_number(which)
        try:
            return _with_archived_output(crontab, crontab.find_run(run_id))
        except NotFound:
            if not crontab.names(which, 1):
                if pruned := services.archives.Archives(crontab).find(run_id):
                    _note_archive(pruned.run)
                    return pruned.run, pruned.output
                raise
    run = crontab.run_to_follow(which) if follow else crontab.last_run(which)
    return _with_archived_output(crontab, run)


def _with_archived_output(
    crontab: "services.crontab.Crontab", run: Run
) -> tuple[Run, Sequence[Chunk] | None]:
    """Add the output of a run that has ended if only the archive has it."""
    if not run.state.is_final or run.started_at is None or crontab.output(run.id, 0):
        return run, None
    try:
        found = services.archives.Archives(crontab).output(run)
    except ArchiveError as error:  # perhaps the run printed nothing
        console.complain(str(error))
        return run, None
    if found:
        _note_archive(run)
    return run, found or None


def _note_archive(run: Run) -> None:
    console.note(f"run {run.id} of {run.task}: from the archive")


def _ending(run: Run, short: str) -> str:
    """Return the result with its reason, such as why the run could not be started."""
    if not run.reason or run.state is RunState.SUCCEEDED or run.reason.endswith(short):
        return short
    return run.reason if run.reason.startswith(short) else f"{short}: {run.reason}"


def _chunks(crontab: "services.crontab.Crontab", run: Run, *, follow: bool) -> Iterator[Chunk | None]:
    """Yield the run's output in order, and None while there is nothing new."""
    offset, waiting = 0, pauses()
    while True:
        final = not follow or crontab.find_run(run.id).state.is_final  # read first, so no output is missed
        page = crontab.output(run.id, offset)
        yield from page
        if page:
            offset, waiting = page[-1].end, pauses()
        elif final:
            return
        else:
            yield None
            time.sleep(next(waiting))


def _write(chunks: Iterator[Chunk | None], output: OutputPrinter) -> None:
    for chunk in chunks:
        if chunk:
            output.write(chunk)
        else:
            output.flush()
    output.end()
