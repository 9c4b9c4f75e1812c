"""The content of an object: compressed lines, each the JSON of a run with its output (docs/operations.md)."""

import gzip
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from dcron.errors import ArchiveError

MEBIBYTE = 1 << 20
LONGEST_LINE = 256 * MEBIBYTE
"""Bytes of a run's line: its output is stored as texts or in base64."""
MOST_LINES = 2 * LONGEST_LINE
"""Bytes of an object's lines."""
MOST_BYTES = MOST_LINES
"""Bytes of an object."""
_PART = re.compile(r"\d{4}-\d\d-\d\d/\d{3,}-[0-9a-f]{16}\.jsonl\.gz", re.ASCII)


@dataclass(frozen=True)
class ArchivedChunk:
    """A piece of output: its place in what the run wrote to both streams, and its bytes."""

    offset: int
    stream: str
    at: datetime
    data: bytes


@dataclass(frozen=True)
class ArchivedRun:
    """A run as the archive has it."""

    facts: Mapping[str, Any]
    output: list[ArchivedChunk]


def part_name(day: str, number: int, digest: str) -> str:
    """Return the name of an object. It has the SHA-256 of the content: the same content has the same name."""
    return f"{day}/{number:03}-{digest[:16]}.jsonl.gz"


def is_part_name(name: str) -> bool:
    """Return whether `part_name` can have made this name."""
    return _PART.fullmatch(name) is not None


def run_line(run_id: int, facts: Mapping[str, Any], output: Iterable[ArchivedChunk]) -> bytes:
    """Return the line of a run; `facts` are values of JSON and times. The id comes first."""
    document = {"id": run_id, **facts, "output": [_chunk(each) for each in output]}
    return json.dumps(document, separators=(",", ":"), default=_json_value).encode() + b"\n"


def find_run(data: bytes, run_id: int, sha256: str) -> ArchivedRun | None:
    """Return the run of this id from the content of an object, whose lines have this digest.

    Raises ArchiveError for unreadable or other content. All lines are read, but only one is kept.
    """
    try:
        if not data:
            raise EOFError("the object is empty")
        with gzip.open(BytesIO(data)) as lines:
            line = _line_of(lines, run_id, sha256)
        if line is None:
            return None
        facts = json.loads(line)
        return ArchivedRun(facts, [_read_chunk(each) for each in facts.pop("output")])
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"the archive of run {run_id} is damaged: {error}") from error


def _line_of(lines: gzip.GzipFile, run_id: int, sha256: str) -> bytes | None:
    """Return the line of this run. Raises ValueError for other content than was recorded."""
    import hashlib  # only for who reads an archive: `preview` starts without it

    beginning = b'{"id":%d,' % run_id
    digest, found, size = hashlib.sha256(), None, 0
    while line := lines.readline(LONGEST_LINE + 1):
        size += len(line)
        if len(line) > LONGEST_LINE or size > MOST_LINES:
            raise ValueError("it has more than dcron writes")
        digest.update(line)
        if found is None and line.startswith(beginning):
            found = line
    if digest.hexdigest() != sha256:
        raise ValueError("its SHA-256 is not the recorded one")
    return found


def _chunk(chunk: ArchivedChunk) -> dict[str, Any]:
    try:
        content = {"text": chunk.data.decode()}
    except UnicodeDecodeError:
        content = {"base64": b64encode(chunk.data).decode()}
    return {"offset": chunk.offset, "stream": chunk.stream, "at": chunk.at, **content}


def _read_chunk(stored: Mapping[str, Any]) -> ArchivedChunk:
    data = stored["text"].encode() if "text" in stored else b64decode(stored["base64"])
    return ArchivedChunk(stored["offset"], stored["stream"], datetime.fromisoformat(stored["at"]), data)


def _json_value(value: Any) -> str:
    """Return a time as RFC 3339 in UTC, and any other value as a text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
