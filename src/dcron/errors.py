"""The ways dcron says no. Each class carries the exit code of the command-line contract."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `dcron` returns to the shell (docs/cli.md)."""

    DONE = 0
    """Done."""
    FAILED = 1
    """Refused or failed; for `lint`: there are findings."""
    USAGE = 2
    """Wrong usage, a bad schedule, a bad file."""
    DATABASE = 3
    """The database cannot be reached, is locked, full or damaged."""
    NOT_FOUND = 4
    """No such task, run, node or calendar."""
    CONFLICT = 5
    """Somebody else changed it first."""
    TIMED_OUT = 124
    """`run --wait --timeout`: the run had not ended by then."""
    INTERRUPTED = 130
    """Interrupted from the keyboard."""


ROW_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a value may raise that was written into a row by hand. Whatever handles many rows catches these around
each of them: one row must stop nothing but itself."""


class DcronError(Exception):
    """Something a person should read; the message is one or a few plain sentences."""

    exit_code = ExitCode.FAILED


class Refused(DcronError):  # noqa: N818
    """The request is understood and will not be done."""


class UsageError(DcronError):
    """What was typed is not valid; the message says what would be right."""

    exit_code = ExitCode.USAGE


class ScheduleError(UsageError):
    """A schedule that cannot be read, or that never fires."""


class ZoneError(UsageError):
    """A time zone that the tz database does not have."""


class CrontabFileError(UsageError):
    """A crontab file that cannot be read: names the file, line and column."""


class DatabaseError(DcronError):
    """The database cannot be reached, is locked, full or damaged."""

    exit_code = ExitCode.DATABASE


class DatabaseReplaced(DatabaseError):  # noqa: N818
    """At the path of a SQLite file that is open stands another by now."""


class SchemaVersionError(DatabaseError):
    """The database was made for another version of dcron, or has yet to be made."""


class NotFound(DcronError):  # noqa: N818
    """No such task, run, node or calendar."""

    exit_code = ExitCode.NOT_FOUND


class NoCalendar(UsageError):  # noqa: N818
    """A line names a calendar that is not there."""

    exit_code = ExitCode.NOT_FOUND


class Conflict(DcronError):  # noqa: N818
    """Somebody else changed it first."""

    exit_code = ExitCode.CONFLICT


def unexpected(error: BaseException) -> str:
    """What to tell of an error nobody foresaw: its kind and its first line, for below come statements."""
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])
