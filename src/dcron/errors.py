"""The errors of dcron. Each class has the exit code that the command line returns, and a word for it."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `dcron` returns to the shell (docs/cli.md)."""

    DONE = 0
    """Done."""
    FAILED = 1
    """Refused or failed; for `lint`: there are findings."""
    USAGE = 2
    """Wrong usage, an invalid schedule, an invalid file."""
    DATABASE = 3
    """The database cannot be reached, is locked, full or damaged."""
    NOT_FOUND = 4
    """No such task, run, node or calendar."""
    CONFLICT = 5
    """Another user changed it first."""
    TIMED_OUT = 124
    """`run --wait-timeout`: the run had not ended in time."""
    INTERRUPTED = 130
    """Interrupted from the keyboard."""


ROW_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a value in a row edited by hand may raise. Code that handles many rows catches these for each row, so
that one row stops only itself."""


class DcronError(Exception):
    """An error for the user; the message is one or a few plain sentences."""

    exit_code = ExitCode.FAILED
    code = "refused"
    """A word that never changes, for programs."""
    field: str | None = None
    """The field of a task that it is about, if it is about one."""

    def __init__(self, *texts: object, field: str | None = None) -> None:
        super().__init__(*texts)
        if field:
            self.field = field


class Refused(DcronError):  # noqa: N818
    """The request is valid, but dcron refuses it."""


class WardenFailed(DcronError):  # noqa: N818
    """The process that starts commands did not start: it was killed, or the machine has no room for it."""


class UsageError(DcronError):
    """The input is not valid; the message says what would be right."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ScheduleError(UsageError):
    """A schedule that cannot be read, or that never fires."""

    code = "schedule"
    field = "schedule"


class NeverFires(ScheduleError):  # noqa: N818 - named like the other errors
    """A valid schedule without a time in the next years, such as `0 0 31 2 *`."""


class ZoneError(UsageError):
    """A time zone that the tz database does not have."""

    code = "zone"
    field = "timezone"


class CrontabFileError(UsageError):
    """A crontab file that cannot be read: names the file, line and column."""

    code = "file"


class ArchiveError(DcronError):
    """The archive cannot be reached, written or read."""

    code = "archive"


class DatabaseError(DcronError):
    """The database cannot be reached, is locked, full or damaged."""

    exit_code = ExitCode.DATABASE
    code = "database"


class Unreachable(DatabaseError):  # noqa: N818
    """The connection to the database broke, or none can be made. Nothing was committed."""


class OutcomeUnknown(Unreachable):
    """The connection broke during a COMMIT: whether the transaction was committed is unknown."""


class DatabaseReplaced(DatabaseError):  # noqa: N818
    """The SQLite file was replaced by another while it was open."""


class SchemaVersionError(DatabaseError):
    """The database was made for another version of dcron, or has no tables yet."""


class NotFound(DcronError):  # noqa: N818
    """No such task, run, node or calendar."""

    exit_code = ExitCode.NOT_FOUND
    code = "not-found"


class NoCalendar(UsageError):  # noqa: N818
    """A task names a calendar that does not exist."""

    exit_code = ExitCode.NOT_FOUND
    code = "not-found"


class Conflict(DcronError):  # noqa: N818
    """Another user changed it first."""

    exit_code = ExitCode.CONFLICT
    code = "conflict"


def unexpected(error: BaseException) -> str:
    """Return the kind and the first line of an unforeseen error; further lines may hold SQL statements."""
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])
