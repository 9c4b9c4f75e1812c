"""An archive in a bucket, through obstore (the extra `archive`). Credentials are those of the machine."""

from datetime import timedelta
from typing import TYPE_CHECKING

from dcron.errors import ArchiveError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_REQUEST = "30s"
_RETRIES = timedelta(seconds=10)


def bucket(url: str) -> "ObjectStorage":
    """Return the storage at a URL such as s3://bucket/prefix. Raises ArchiveError."""
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ArchiveError(
            f"the archive {url} needs the package obstore: pip install 'dcrontab[archive]'"
        ) from error
    try:
        store = from_url(
            url,
            # $AWS_ENDPOINT_URL may name a server of one's own without TLS; AWS itself has https URLs.
            client_options={"timeout": _REQUEST, "allow_http": True},
            retry_config={"max_retries": 3, "retry_timeout": _RETRIES},
        )
    except Exception as error:  # obstore has errors of its own and Python's
        raise ArchiveError(f"the archive {url} cannot be used: {_first_line(error)}") from error
    return ObjectStorage(store, url)


class ObjectStorage:
    """Objects of a bucket."""

    def __init__(self, store: "ObjectStore", url: str) -> None:
        """`url` is for messages."""
        self._store = store
        self._url = url

    def put(self, name: str, data: bytes) -> None:
        """Create the object; one that is there is kept. Raises ArchiveError."""
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        try:
            put(self._store, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return
        except Exception as error:
            raise self._failed("written", name, error) from error

    def get(self, name: str, most: int) -> bytes:
        """Return the object, if it has no more bytes. Raises ArchiveError."""
        from obstore import get

        try:
            found = get(self._store, name)
            if found.meta["size"] <= most:
                return bytes(found.bytes())
        except Exception as error:
            raise self._failed("read", name, error) from error
        raise ArchiveError(f"the archive {self._url}/{name} is larger than was recorded, and is not read")

    def _failed(self, what: str, name: str, error: Exception) -> ArchiveError:
        return ArchiveError(f"the archive {self._url}/{name} cannot be {what}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]
