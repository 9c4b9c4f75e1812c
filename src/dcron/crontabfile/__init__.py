"""Crontab files: `read` text into definitions, and `write` them back. No database, no clock."""

from dcron.crontabfile.problems import BadFile
from dcron.crontabfile.reading import CrontabFile, ParserNotice, read
from dcron.crontabfile.size_limits import MAX_BYTES, MAX_SCHEDULE, MAX_TASKS, MAX_VARIABLES
from dcron.crontabfile.writing import write

__all__ = [
    "MAX_BYTES",
    "MAX_SCHEDULE",
    "MAX_TASKS",
    "MAX_VARIABLES",
    "BadFile",
    "CrontabFile",
    "ParserNotice",
    "read",
    "write",
]
