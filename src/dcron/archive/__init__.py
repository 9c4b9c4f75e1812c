"""Archives: objects below a URL, each written once, with one JSON line for each run."""

from dcron.archive.lines import (
    MOST_BYTES,
    ArchivedChunk,
    ArchivedRun,
    find_run,
    is_part_name,
    part_name,
    run_line,
)
from dcron.archive.storage import Storage, open_storage, require_url

__all__ = [
    "MOST_BYTES",
    "ArchivedChunk",
    "ArchivedRun",
    "Storage",
    "find_run",
    "is_part_name",
    "open_storage",
    "part_name",
    "require_url",
    "run_line",
]
