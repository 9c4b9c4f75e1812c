"""What lists are asked for and what they answer: filters, pages, and pieces of output."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.model import Alert, Run


@dataclass(frozen=True)
class Term:
    """One word of a filter. A row passes the filter if it matches all words."""

    field: str
    """A field of tasks or of runs; `text` searches names, commands, descriptions and reasons."""
    value: str = ""
    negated: bool = False
    alternatives: tuple[tuple["Term", ...], ...] = ()
    """Of the field `any`: a row matches if it matches all words of one of these."""


@dataclass(frozen=True)
class RunListFilter:
    """Which runs to list."""

    task_id: int | None = None
    node_id: str | None = None
    node_since: datetime | None = None
    """When that node started: none of its runs ended before."""
    terms: Sequence[Term] = ()


@dataclass(frozen=True)
class RunCursor:
    """The last run of a page of finished runs; the next page begins behind it."""

    finished_at: datetime
    id: int


@dataclass(frozen=True)
class RunsPage:
    """Finished runs, the latest first."""

    runs: Sequence[Run]
    end: RunCursor | None
    """None when this is the last page."""


@dataclass(frozen=True)
class DeadLettersPage:
    """Dead letters, the newest first."""

    runs: Sequence[Run]
    end: int | None
    """The id of the last run searched; None when this is the last page."""


@dataclass(frozen=True)
class DeadTask:
    """A task with dead letters; it may have been removed."""

    task_id: int
    name: str
    count: int
    first: Run
    last: Run


@dataclass(frozen=True)
class UnacknowledgedAlerts:
    """Open alerts that are not acknowledged."""

    count: int
    """Up to a limit."""
    newest: Alert


@dataclass(frozen=True)
class Chunk:
    """Bytes of one stream, and their offset in what the run wrote to both streams."""

    run_id: int
    byte_offset: int
    stream: str
    at: datetime
    data: bytes

    @property
    def end(self) -> int:
        """The offset of the byte after the chunk."""
        return self.byte_offset + len(self.data)
