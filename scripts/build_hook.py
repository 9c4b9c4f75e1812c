"""Add the man page and the completion files to a wheel; hatchling calls this while it builds one."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):
    """Makes the files that are not in the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them, and name them in `build_data`. An editable installation has none."""
        if version == "editable":
            return
        sys.path[:0] = [self.root, str(Path(self.root, "src"))]
        from scripts import man

        self._directory = tempfile.TemporaryDirectory()
        man.write(Path(self._directory.name))
        build_data["shared_data"] |= {
            str(Path(self._directory.name, name)): place for name, place in man.FILES.items()
        }

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files: the wheel has them."""
        if version != "editable":
            self._directory.cleanup()
