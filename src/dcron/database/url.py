"""Database URLs as people type them, made into what the driver wants; and kept out of messages."""

import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from dcron.errors import UsageError

FORMS = "postgresql://user@host/name or sqlite:////absolute/path.db"
# Up to the last @ of the line: a password typed as it is may itself have one, or a space.
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*(?=@)")
_PASSWORD_WORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)


def redact(text: str) -> str:
    """The text without any password of a database URL or connection string in it."""
    return _PASSWORD_WORD.sub(r"\1***", _PASSWORD.sub(r"\1***", text))


@dataclass(frozen=True)
class Address:
    """Where the database is."""

    url: URL
    transaction_pooling: bool = False
    """A pooler such as pgbouncer gives out connections per transaction (`?pgbouncer=true`)."""
    forced: bool = False
    """A SQLite file is wanted even on a network file system (`?force=true`)."""

    @property
    def path(self) -> Path | None:
        """The SQLite file; None for Postgres."""
        if self.url.get_backend_name() != "sqlite":
            return None
        return Path(self.url.database or "").expanduser().absolute()

    def __str__(self) -> str:
        """Fit to be shown: no driver, no password."""
        if self.path:
            return f"sqlite:///{self.path}"
        return redact(self.url.set(drivername="postgresql").render_as_string(hide_password=True))


def parse_url(text: str) -> Address:
    """Read a database URL. Raises UsageError, never repeating a password."""
    try:
        url = make_url(text.strip())
        backend = url.drivername.split("+")[0]
    except (ArgumentError, ValueError):
        has_secret = "@" in text or "password" in text.lower()
        shown = "what was given" if has_secret else repr(text)
        raise UsageError(f"{shown} is not a database URL; write {FORMS}") from None
    url, pooling = _take_flag(url, "pgbouncer")
    url, forced = _take_flag(url, "force")
    if backend == "sqlite":
        return Address(_sqlite(url), forced=forced)
    if backend in ("postgresql", "postgres"):
        return Address(url.set(drivername="postgresql+psycopg"), transaction_pooling=pooling)
    raise UsageError(f"dcron does not know the database {backend!r}; write {FORMS}")


def _sqlite(url: URL) -> URL:
    if not url.database or url.database == ":memory:":
        raise UsageError(f"a shared crontab needs a file; write {FORMS}")
    if url.host:
        raise UsageError(f"a SQLite path takes three slashes, or four when it is absolute; write {FORMS}")
    if unknown := ", ".join(url.query):
        raise UsageError(f"a SQLite URL takes ?force=true and nothing else; this one has {unknown!r}")
    return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).expanduser().absolute()))


def _take_flag(url: URL, name: str) -> tuple[URL, bool]:
    value = url.query.get(name)
    return url.difference_update_query([name]), value in ("true", "1", "yes")
