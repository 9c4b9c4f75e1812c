"""`logs`: what a run printed, while it prints and afterwards, from any machine."""

import codecs
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab
from dcron.cli.parameters import Db, Json, run_number
from dcron.cli.running import exit_code, pauses
from dcron.errors import NotFound
from dcron.model import Run, RunState
from dcron.safetext import safe_line
from dcron.telling.words import result

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.store.output import Chunk

Which = Annotated[
    str,
    typer.Argument(
        metavar="RUN|NAME", help="A run's number, or a task for its latest run.", show_default=False
    ),
]


def logs(
    which: Which,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the run ends; exit as the command did.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the bytes as they are, also to a terminal that obeys them.")
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Print what a run wrote to stdout and stderr, in order.

    On a terminal escape sequences are taken out; in a pipe the bytes are untouched.

    \b
    dcron logs -f backup
    dcron logs 8123 > backup.log
    """
    with opened_crontab(db) as crontab:
        run = _find(crontab, which, follow=follow)
        if as_json:
            _print_json(_chunks(crontab, run, follow=follow), follow=follow)
        elif raw or not printing.is_terminal():
            _write_bytes(_chunks(crontab, run, follow=follow))
        else:
            _write_inert(_chunks(crontab, run, follow=follow))
        if follow:
            run = crontab.find_run(run.id)
        told = result(run, crontab.now())
        ended = _ending(run, told)
        if follow or ended != told:
            printing.note(f"run {run.id} of {run.task}: {ended}")
    if follow:
        raise typer.Exit(exit_code(run))


def _find(crontab: "Crontab", which: str, *, follow: bool) -> Run:
    """A number is a run, unless only a task is called so."""
    if which.isascii() and which.isdigit():
        try:
            return crontab.find_run(run_number(which))
        except NotFound:
            if not crontab.names(which, 1):
                raise
    return crontab.run_to_follow(which) if follow else crontab.last_run(which)


def _ending(run: Run, told: str) -> str:
    """How it ended, with what its result leaves out: that it could not be started, and why."""
    if not run.reason or run.state is RunState.SUCCEEDED or run.reason.endswith(told):
        return told
    return run.reason if run.reason.startswith(told) else f"{told}: {run.reason}"


def _chunks(crontab: "Crontab", run: Run, *, follow: bool) -> Iterator["Chunk | None"]:
    """The run's output in order; None where there is nothing new yet."""
    offset, waiting = 0, pauses()
    while True:
        final = (
            not follow or crontab.find_run(run.id).state.is_final
        )  # looked at first: then nothing is missed
        page = crontab.output(run.id, offset)
        yield from page
        if page:
            offset, waiting = page[-1].end, pauses()
        elif final:
            return
        else:
            yield None
            time.sleep(next(waiting))


def _print_json(chunks: Iterator["Chunk | None"], *, follow: bool) -> None:
    from dcron.cli.shapes import chunk_shape

    shapes = (chunk_shape(chunk) for chunk in chunks if chunk)
    if follow:
        for shape in shapes:
            printing.emit_line(shape)
    else:
        printing.emit_list(shapes)


def _write_bytes(chunks: Iterator["Chunk | None"]) -> None:
    sys.stdout.flush()
    offset = 0
    for chunk in chunks:
        if chunk:
            _tell_gap(offset, chunk)
            offset = chunk.end
            sys.stdout.buffer.write(chunk.data)
        else:
            sys.stdout.buffer.flush()
    sys.stdout.buffer.flush()


def _write_inert(chunks: Iterator["Chunk | None"]) -> None:
    offset, lines = 0, _Lines()
    for chunk in chunks:
        if chunk is None:
            lines.flush()
            continue
        if chunk.byte_offset != offset:
            lines.end()
            _tell_gap(offset, chunk)
        offset = chunk.end
        lines.write(chunk.stream, chunk.data)
    lines.end()


def _tell_gap(expected: int, chunk: "Chunk") -> None:
    if chunk.byte_offset > expected:
        sys.stdout.flush()
        printing.note(f"[{chunk.byte_offset - expected:,} bytes in the middle were not kept]")


class _Lines:
    """Puts the chunks of both streams together to lines and prints these inert.

    An unfinished line is shown when nothing follows it for a while.
    """

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder(errors="replace") for stream in ("out", "err")}
        self._stream = ""
        self._open = ""
        self._shown = False

    def write(self, stream: str, data: bytes) -> None:
        """Print the lines that are whole by now."""
        if stream != self._stream:
            self.end()
            self._stream = stream
        *lines, self._open = (self._open + self._decoders[stream].decode(data)).split("\n")
        for line in lines:
            sys.stdout.write(safe_line(line) + "\n")
            self._shown = False

    def flush(self) -> None:
        """Print what there is of a line that has not ended."""
        if self._open:
            sys.stdout.write(safe_line(self._open))
            self._open, self._shown = "", True
        sys.stdout.flush()

    def end(self) -> None:
        """End the line that is open."""
        if self._stream:
            self._open += self._decoders[self._stream].decode(b"", final=True)
        self.flush()
        if self._shown:
            sys.stdout.write("\n")
            self._shown = False
