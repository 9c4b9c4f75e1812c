"""Print the oldest and the newest Python of this machine that dcron runs on, one path on each line.

`make test-pythons` plays the quick tests on them. The Python that runs this script is left out. The argument
`oldest` leaves out the newest one.
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
_NAME = re.compile(r"python3(\.\d+)?")
_PROBE = """
import sys, ctypes, sqlite3, ssl, zlib
if sys.implementation.name == "cpython" and sys.version_info.releaselevel == "final":
    print(*sys.version_info[:3])
"""
"""Fails on a Python that was built without what dcron or pip needs."""

Version = tuple[int, ...]


def main() -> None:
    """Print them."""
    own = tuple(map(int, platform.python_version_tuple()))
    found = {version: path for path in candidates() if (version := version_of(path)) >= OLDEST}
    wanted = {min(found, default=own)}
    if "oldest" not in sys.argv[1:]:
        wanted.add(max(found, default=own))
    for version in sorted(wanted - {own}):
        print(found[version])


def candidates() -> Iterator[Path]:
    """Yield programs that bear the name of a Python: on the path, in /usr/bin, and those of pyenv."""
    directories = [Path(each) for each in os.environ.get("PATH", "").split(":") if each]
    roots = [os.environ.get("PYENV_ROOT", "~/.pyenv"), *(path.parent for path in directories)]
    versions = [each for root in roots for each in Path(root).expanduser().glob("versions/*/bin")]
    for directory in dict.fromkeys([*versions, *directories, Path("/usr/local/bin"), Path("/usr/bin")]):
        yield from (path for path in directory.glob("python3*") if _NAME.fullmatch(path.name))


def version_of(python: Path) -> Version:
    """Return the version of this Python; an empty one if it does not run or lacks something."""
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, done.stdout.split()))


if __name__ == "__main__":
    sys.exit(main())
