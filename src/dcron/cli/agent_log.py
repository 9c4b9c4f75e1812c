"""The log of an agent: one line a message on stderr."""

import logging
import sys
import time

from dcron.safetext import safe


class _OneLine(logging.Formatter):
    """Format messages as `2026-11-21T02:13:22Z info node web-1-3f9c2a7e: …`, in UTC and safe to print."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the message on one line and without passwords; a traceback keeps its lines."""
        from dcron.database.url import redact

        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ")
        line = f"{stamp} {record.levelname.lower()} {safe(redact(record.getMessage()))}"
        return f"{line}\n{redact(self.formatException(record.exc_info))}" if record.exc_info else line


def log_to_stderr() -> None:
    """Write the messages of this process's loggers to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    log = logging.getLogger("dcron")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
