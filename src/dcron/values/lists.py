"""What lists are asked for and what they answer: filters, pages, and pieces of output."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.model import Alert, Run, RunState


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
class RunFilter:
    """Which runs to list; None is any."""

    task_id: int | None = None
    states: Sequence[RunState] | None = None
    since: datetime | None = None
    """Runs that ended at this time (UTC) or later, or have not ended."""
    before_id: int | None = None
    flow: int | None = None
    dead: bool = False
    """Only dead letters."""
    selector: Any = None
    """A selector of `policy`: only runs of tasks that it chooses."""


@dataclass(frozen=True)
class WaitingRuns:
    """The waiting runs of a task that a person may cancel together."""

    task_id: int
    now: datetime
    """Its next scheduled run is not among them before it is due."""
    backfill: tuple[int, int] | None = None
    """Only those of this backfill: the ids of its first and its last run."""


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
