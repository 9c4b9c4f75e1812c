"""Sources: the files that define tasks, as crontab text, JSON or TOML. No database, no clock.

`read` reads files and directories, `write` writes definitions.
"""

from dcron.sources.files import is_directory
from dcron.sources.formats import FORMATS, Format
from dcron.sources.reading import parse, read
from dcron.sources.values import Place, SourceNotice, SourceTask, SourceText
from dcron.sources.writing import write

__all__ = [
    "FORMATS",
    "Format",
    "Place",
    "SourceNotice",
    "SourceTask",
    "SourceText",
    "is_directory",
    "parse",
    "read",
    "write",
]
