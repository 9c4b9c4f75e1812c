"""What a run wrote, printed while it comes: as bytes to a pipe, inert on a terminal, or as JSON lines."""

import codecs
import sys
from typing import TYPE_CHECKING, Protocol

from dcron.cli import console
from dcron.safetext import safe_line

if TYPE_CHECKING:
    from dcron.store.output import Chunk


class OutputPrinter(Protocol):
    """Prints the output of one run."""

    def write(self, chunk: "Chunk") -> None:
        """Print the next chunk."""

    def flush(self) -> None:
        """Show all there is: nothing may follow for a while."""

    def end(self) -> None:
        """Print what is left; nothing follows."""


def output_here(*, raw: bool = False) -> OutputPrinter:
    """Return what suits stdout: inert text on a terminal, unless `raw`, and the bytes elsewhere."""
    return ByteOutput() if raw or not console.is_terminal() else InertOutput()


class JsonOutput:
    """Prints each chunk as a JSON object on a line of its own."""

    def write(self, chunk: "Chunk") -> None:
        """Print the chunk."""
        from dcron.cli.json_output import chunk_shape

        console.emit_line(chunk_shape(chunk))

    def flush(self) -> None:
        """Each line was flushed as it was printed."""

    end = flush


class ByteOutput:
    """Writes the bytes as they are."""

    def __init__(self) -> None:
        """Begin at the first byte, behind what was printed before."""
        sys.stdout.flush()
        self._offset = 0

    def write(self, chunk: "Chunk") -> None:
        """Write the chunk's bytes."""
        _mention_gap(self._offset, chunk)
        self._offset = chunk.end
        sys.stdout.buffer.write(chunk.data)

    def flush(self) -> None:
        """Show all there is."""
        sys.stdout.buffer.flush()

    end = flush


class InertOutput:
    """Puts the chunks of both streams together to lines and prints these inert.

    An unfinished line is shown when nothing follows it for a while.
    """

    def __init__(self) -> None:
        """Begin at the first byte."""
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {stream: decoder(errors="replace") for stream in ("out", "err")}
        self._offset = 0
        self._stream = ""
        self._open = ""
        self._shown = False

    def write(self, chunk: "Chunk") -> None:
        """Print the lines that are whole by now."""
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


def _mention_gap(expected: int, chunk: "Chunk") -> None:
    if chunk.byte_offset > expected:
        sys.stdout.flush()
        console.note(f"[{chunk.byte_offset - expected:,} bytes in the middle were not kept]")
