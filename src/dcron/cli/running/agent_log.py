"""The log of an agent on stderr: one line a message, for people, for the journal of systemd, or as JSON."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TextIO, get_args

from dcron.database.failures import LOGGERS
from dcron.database.url import redact
from dcron.errors import unexpected
from dcron.values.safe_text import safe

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
FACTS = ("node", "run", "task", "event")
"""Keys of a JSON message that it has where they apply (docs/operations.md)."""
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""The priority of syslog for messages of at least this level."""


class AgentLog(logging.Handler):
    """Writes each message on one line, without passwords and safe to print. Times are in UTC."""

    def __init__(self, stream: TextIO, style: LogFormat) -> None:
        super().__init__()
        self._stream = stream
        self._style = style
        self._to_journal = is_journal(stream)
        self.node: Callable[[], str | None] = lambda: None
        """Return the present node, for JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message; a traceback keeps its lines, except in JSON."""
        try:
            lines = self._json(record) if self._style == "json" else self._text(record)
            mark = f"<{_priority(record.levelno)}>" if self._to_journal else ""
            self._stream.write("".join(f"{mark}{line}\n" for line in lines))
            self._stream.flush()
        except Exception:
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> list[str]:
        """Return `2026-11-21T02:13:22Z info node web-1-3f9c2a7e: …`; for the journal, the message alone."""
        message, trace = _texts(record)
        head = "" if self._to_journal else f"{_stamp(int(record.created))}Z {record.levelname.lower()} "
        return [f"{head}{message}", *trace.splitlines()]

    def _json(self, record: logging.LogRecord) -> list[str]:
        message, trace = _texts(record)
        time_of = f"{_stamp(int(record.created))}.{int(record.msecs):03}Z"
        found: dict[str, Any] = {"time": time_of, "level": record.levelname.lower(), "message": message}
        facts = {"node": self.node()} | {name: getattr(record, name, None) for name in FACTS[1:]}
        found |= {name: value for name, value in facts.items() if value is not None}
        return [json.dumps(found | ({"traceback": trace} if trace else {}), ensure_ascii=False)]


def log_to_stderr(style: LogFormat = "text") -> AgentLog:
    """Write the messages of this process's loggers to stderr."""
    handler = AgentLog(sys.stderr, style)
    for name, level in (("dcron", logging.INFO), *((each, logging.WARNING) for each in LOGGERS[:2])):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(level)
        log.propagate = False
    return handler


def is_journal(stream: TextIO) -> bool:
    """Return whether the stream leads to the journal, as systemd says in $JOURNAL_STREAM."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _texts(record: logging.LogRecord) -> tuple[str, str]:
    """Return the message and its traceback, if any; one line if a library wrote the message."""
    if record.name.startswith(LOGGERS):
        error = record.exc_info[1] if record.exc_info else None
        said = [record.getMessage(), *([unexpected(error)] if error else [])]
        return safe(redact(": ".join(said).partition("\n")[0])), ""
    trace = "".join(logging.Formatter().formatException(record.exc_info)) if record.exc_info else ""
    return safe(redact(record.getMessage())), redact(trace)


@lru_cache(maxsize=1)  # a busy agent logs thousands of messages in one second
def _stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), 7)
