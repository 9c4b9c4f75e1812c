"""The output of commands, stored in chunks while they run.

Of a long output the first HEAD_BYTES and the last TAIL_BYTES are kept.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select

from dcron.database import Database
from dcron.schema.tables import output, runs
from dcron.values.lists import Chunk

HEAD_BYTES = 5 * 1024 * 1024
TAIL_BYTES = 5 * 1024 * 1024


def append(connection: Connection, database: Database, chunks: Sequence[Chunk]) -> None:
    """Insert chunks. One that was already delivered is left as it is."""
    values = [
        {
            "run_id": chunk.run_id,
            "byte_offset": chunk.byte_offset,
            "stream": chunk.stream,
            "at": chunk.at,
            "lines": chunk.data.count(b"\n"),
            "data": chunk.data,
        }
        for chunk in chunks
    ]
    connection.execute(database.insert_if_absent(output), values)
    ends = {chunk.run_id: chunk.end for chunk in chunks}
    for run_id, end in ends.items():
        if end > HEAD_BYTES + TAIL_BYTES:
            _drop_middle(connection, run_id, end)


def read(connection: Connection, run_id: int, offset: int, limit: int = 200) -> list[Chunk]:
    """Return the run's chunks from the byte `offset` on, in order."""
    query = select(output.c.run_id, output.c.byte_offset, output.c.stream, output.c.at, output.c.data)
    query = query.where(output.c.run_id == run_id, output.c.byte_offset >= offset)
    return [Chunk(*row) for row in connection.execute(query.order_by(output.c.byte_offset).limit(limit))]


def first_after_head(connection: Connection, run_id: int) -> int | None:
    """Return the offset of the first chunk behind the head that is still kept."""
    query = select(output.c.byte_offset).where(output.c.run_id == run_id, output.c.byte_offset >= HEAD_BYTES)
    return connection.scalar(query.order_by(output.c.byte_offset).limit(1))


def neighbour(connection: Connection, task_id: int, run_id: int, *, later: bool) -> int | None:
    """Return the id of the started run of the task before this one; with `later`, of the one after it."""
    started = select(runs.c.id).where(runs.c.task_id == task_id, runs.c.started_at.is_not(None))
    if later:
        return connection.scalar(started.where(runs.c.id > run_id).order_by(runs.c.id).limit(1))
    return connection.scalar(started.where(runs.c.id < run_id).order_by(runs.c.id.desc()).limit(1))


def size(connection: Connection, run_id: int) -> int:
    """Return how many bytes the run has written as far as is known, kept or not."""
    last = select(output.c.byte_offset + func.length(output.c.data)).where(output.c.run_id == run_id)
    return connection.scalar(last.order_by(output.c.byte_offset.desc()).limit(1)) or 0


def _drop_middle(connection: Connection, run_id: int, end: int) -> None:
    middle = (output.c.byte_offset >= HEAD_BYTES) & (output.c.byte_offset < end - TAIL_BYTES)
    connection.execute(delete(output).where(output.c.run_id == run_id, middle))
