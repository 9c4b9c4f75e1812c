"""Print the output of a run: as bytes to a pipe, as safe text on a terminal, or as JSON lines."""

import codecs
import sys
from typing import Protocol

from dcron.cli.output import console
from dcron.cli.output.json_output import chunk_shape
from dcron.values.lists import Chunk
from dcron.values.safe_text import safe_line


class OutputPrinter(Protocol):
    """Prints the output of one run."""

    def write(self, chunk: Chunk) -> None:
        """Print the next chunk."""

    def flush(self) -> None:
        """Show what was written so far."""

    def end(self) -> None:
        """Print the rest."""


def output_here(*, raw: bool = False) -> OutputPrinter:
    """Return the printer for stdout: safe text on a terminal, unless `raw`, else bytes."""
    return ByteOutput() if raw or not console.is_terminal() else InertOutput()


class JsonOutput:
    """Prints each chunk as a JSON object on a line of its own."""

    def write(self, chunk: Chunk) -> None:
        """Print the chunk."""
        console.emit_line(chunk_shape(chunk))

    def flush(self) -> None:
        """Do nothing: each line was flushed when it was printed."""

    end = flush


class ByteOutput:
    """Writes the bytes as they are."""

    def __init__(self) -> None:
        """Start at the first byte, after earlier text on stdout."""
        sys.stdout.flush()
        self._offset = 0

    def write(self, chunk: Chunk) -> None:
        """Write the chunk's bytes."""
        _mention_gap(self._offset, chunk)
        self._offset = chunk.end
        sys.stdout.buffer.write(chunk.data)

    def flush(self) -> None:
        """Show all there is."""
        sys.stdout.buffer.flush()

    end = flush


class InertOutput:
    """Prints whole lines of both streams, safe for terminals.

    An unfinished line is printed by `flush`.
    """

    def __init__(self) -> None:
        """Start at the first byte."""
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder(errors="replace") for stream in ("out", "err")}
        self._offset = 0
        self._stream = ""
        self._open = ""
        self._shown = False

    def write(self, chunk: Chunk) -> None:
        """Print the lines that are complete."""
        if chunk.byte_offset != self._offset:
            self.end()
            _mention_gap(self._offset, chunk)
        self._offset = chunk.end
        if chunk.stream != self._stream:
            self.end()
            self._stream = chunk.stream
        *lines, self._open = (self._open + self._decoders[chunk.stream].decode(chunk.data)).split("\n")
        for line in lines:
            sys.stdout.write(safe_line(line) + "\n")
            self._shown = False

    def flush(self) -> None:
        """Print the unfinished line."""
        if self._open:
            sys.stdout.write(safe_line(self._open))
            self._open, self._shown = "", True
        sys.stdout.flush()

    def end(self) -> None:
        """Print and end the unfinished line."""
        if self._stream:
            self._open += self._decoders[self._stream].decode(b"", final=True)
        self.flush()
        if self._shown:
            sys.stdout.write("\n")
            self._shown = False


def _mention_gap(expected: int, chunk: Chunk) -> None:
    if chunk.byte_offset > expected:
        sys.stdout.flush()
        console.note(f"[{chunk.byte_offset - expected:,} bytes in the middle were not kept]")
