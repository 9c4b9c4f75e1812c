"""Where archives are: a directory or a bucket."""

import re
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from dcron.errors import UsageError


class Storage(Protocol):
    """Objects by name. None is ever changed."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, as a whole or not at all. One of this name, which has the same content, is kept.

        Raises ArchiveError.
        """

    def get(self, name: str, most: int) -> bytes:
        """Return an object that has at most so many bytes. Raises ArchiveError."""


def require_url(url: str) -> str:
    """Return the URL of an archive without a slash at its end.

    Raises UsageError for any other text. Credentials do not belong to it: every user of the database sees it.
    """
    parts = urlsplit(url)
    has_more = "@" in parts.netloc or parts.query or parts.fragment
    is_file = parts.scheme == "file" and not parts.netloc and parts.path.strip("/")
    is_bucket = parts.scheme == "s3" and parts.netloc
    if has_more or not (is_file or is_bucket) or any(sign.isspace() for sign in url) or ".." in url:
        raise UsageError(
            f"{_without_credentials(url)[:100]!r} is not the URL of an archive; write file:///DIRECTORY or s3://BUCKET/PREFIX,"
            " without credentials"
        )
    return url.rstrip("/")


def _without_credentials(url: str) -> str:
    """Return the text with whatever may be a credential in it masked."""
    return re.sub(r"(?<=[?#]).+", "***", re.sub(r"[^/]*@", "***@", url))


def open_storage(url: str) -> Storage:
    """Return the storage at a URL that `require_url` accepts. Raises ArchiveError or UsageError."""
    if url.startswith("file:"):
        from dcron.archive.files import FileStorage

        return FileStorage(Path(unquote(urlsplit(url).path)))
    from dcron.archive.objects import bucket

    return bucket(url)
