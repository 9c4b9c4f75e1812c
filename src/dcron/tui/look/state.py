"""What the screen remembers between sessions: typed commands and saved filters."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

MOST_COMMANDS = 200
MOST_BYTES = 1_000_000


@dataclass
class TuiState:
    """The remembered state. A file that cannot be read is empty; one that cannot be written is left."""

    path: Path | None = None
    """Where it is kept; None: nowhere."""
    commands: list[str] = field(default_factory=list)
    """Typed commands, the newest last."""
    filters: dict[str, dict[str, str]] = field(default_factory=dict)
    """Saved filters by the name of their view: for each name its text."""
    hidden: dict[str, list[str]] = field(default_factory=dict)
    """The hidden columns of each table."""

    @classmethod
    def load(cls, path: Path | None) -> "TuiState":
        """Read the state from its file."""
        state = cls(path)
        with suppress(OSError, ValueError, TypeError, AttributeError):
            if path and path.stat().st_size <= MOST_BYTES:
                state._take(json.loads(path.read_text("utf-8")))
        return state

    def _take(self, stored: Mapping[str, object]) -> None:
        commands, filters, hidden = (stored.get(name) for name in ("commands", "filters", "hidden"))
        if isinstance(commands, list):
            self.commands = [each for each in commands if isinstance(each, str)][-MOST_COMMANDS:]
        if isinstance(filters, dict):
            self.filters = {view: _texts(named) for view, named in filters.items() if isinstance(named, dict)}

        if isinstance(hidden, dict):
            self.hidden = {
                table: [each for each in keys if isinstance(each, str)]
                for table, keys in hidden.items()
                if isinstance(keys, list)
            }

    def toggle_column(self, table: str, key: str) -> None:
        """Hide a column of a table, or show it again."""
        self.hidden[table] = sorted({*self.hidden.get(table, ())} ^ {key})
        self.save()

    def add_command(self, text: str) -> None:
        """Remember a typed command; one that was typed before moves to the end."""
        self.commands = [*(each for each in self.commands if each != text), text][-MOST_COMMANDS:]
        self.save()

    def set_filter(self, view: str, name: str, text: str | None) -> None:
        """Save the filter of a view under this name, or forget it."""
        named = self.filters.setdefault(view, {})
        if text is None:
            named.pop(name, None)
        else:
            named[name] = text
        self.save()

    def of_view(self, view: str) -> Sequence[tuple[str, str]]:
        """Return the names and texts of the saved filters of a view."""
        return list(self.filters.get(view, {}).items())

    def save(self) -> None:
        """Replace the file, readable for its owner only."""
        if self.path is None:
            return
        values = {name: value for name, value in asdict(self).items() if name != "path"}
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".tui-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(values, file)
            Path(name).replace(self.path)


def _texts(named: Mapping[object, object]) -> dict[str, str]:
    return {name: text for name, text in named.items() if isinstance(name, str) and isinstance(text, str)}
