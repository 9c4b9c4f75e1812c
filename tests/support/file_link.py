"""A link to the directory of a SQLite file: the way of one agent to it, which can be taken away."""

from pathlib import Path

from sqlalchemy.engine import make_url


class FileLink:
    """A way to a SQLite file, with the interface of `Proxy`."""

    def __init__(self, url: str, link: Path) -> None:
        """Make the link at a path that does not exist."""
        self._file = Path(make_url(url).database or "")
        self._link = link
        self.held = False

    @property
    def held(self) -> bool:
        """Whether the file cannot be reached, as on a file system that is no longer mounted."""
        return not self._link.is_symlink()

    @held.setter
    def held(self, held: bool) -> None:
        self._link.unlink(missing_ok=True)
        if not held:
            self._link.symlink_to(self._file.parent)

    def url(self, _: str) -> str:
        """Return the URL of the file, through the link."""
        return f"sqlite:///{self._link / self._file.name}"

    def cut(self) -> int:
        """Close no connection: a file has none."""
        return 0
