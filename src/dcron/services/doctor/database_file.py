"""A SQLite file: where it is, who can change it, and whether there is room."""

from collections.abc import Iterator

from dcron.database import FileCondition
from dcron.policy.conditions.database import is_disk_low
from dcron.services.doctor.finding import Finding
from dcron.values.quantities import format_size


def examine(file: FileCondition) -> Iterator[Finding]:
    """Yield what is wrong with the file."""
    path = str(file.path)
    if file.journal == "wal" and not file.wal_is_safe:
        yield Finding(
            "journal",
            f"{path} uses a write-ahead log, and SQLite {file.library} has a bug there",
            "several agents that write at once can damage the file",
            "stop all programs that use the file, also the tool that set it: the next dcron switches it off",
            [path],
        )
    if file.is_networked:
        yield Finding(
            "network-fs",
            f"{path} is on a network file system ({file.file_system})",
            "its locks cannot be trusted, so a run can start twice and the file can be damaged",
            "move the crontab to Postgres: `dcron dump` here, `dcron restore` there",
            [path],
        )
    if file.others:
        yield Finding(
            "file-mode",
            f"other accounts can change {path}: {file.others}",
            "who can change the crontab can run commands as the accounts of all its agents",
            f"let its owner alone write it: chmod 600 {path}",
            [path],
        )
    if is_disk_low(file.free, file.size):
        yield Finding(
            "disk",
            f"{format_size(file.free)} are free beside {path}, which has {format_size(file.size)}",
            "when the disk is full, no run can start",
            "make room, keep less history (`dcron config list`), or `dcron prune --compact`",
            [path],
        )


def damaged(path: str, damage: str) -> Finding:
    """Return the finding for a file that is damaged."""
    return Finding(
        "integrity",
        f"{path} is damaged: {damage}",
        "statements that reach the damaged part fail",
        "restore a backup; `dcron dump` may still save the crontab without its history",
        [path],
    )
