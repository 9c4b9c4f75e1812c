"""Install dcron as users do: `make install-test`.

Each command has an empty HOME, and the checkout is not on its path.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import outcome

ROOT = Path(__file__).parents[2]
_OWN = ("DCRON_", "PYTHON", "VIRTUAL_ENV", "XDG_", "PYTEST_")


@dataclass(frozen=True)
class Place:
    """An empty home directory, and what runs in it."""

    home: Path
    caches: Path

    def __call__(self, *words: str | Path, cwd: Path | None = None, **variables: str) -> str:
        """Run a command that must succeed; return its stdout."""
        done = self.attempt(*words, cwd=cwd, **variables)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def attempt(
        self, *words: str | Path, cwd: Path | None = None, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command that may fail."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_OWN)}
        own = {
            "HOME": str(self.home),
            "PIP_CACHE_DIR": str(self.caches / "pip"),
            "UV_CACHE_DIR": str(self.caches / "uv"),
        }
        return outcome(
            [str(word) for word in words], cwd=cwd or self.home, env=kept | own | variables, timeout=1500
        )

    def environment(self, name: str) -> Path:
        """Make an empty environment; return its bin directory."""
        self(sys.executable, "-m", "venv", self.home / name)
        return self.home / name / "bin"


def first_task(place: Place, dcron: Path) -> None:
    """Add a task, let one agent run it, and read the run: what a user does first."""
    url = f"sqlite:///{place.home}/first.db"
    assert re.match(r"dcron \d+\.\d+\.\d+", place(dcron, "--version"))
    place(dcron, "add", "-n", "first", "@daily", "echo installed", DCRON_DB=url)
    place(dcron, "run", "first", DCRON_DB=url)
    policy = place.home / "policy.toml"
    policy.write_text('accounts = ["*", "root"]\n')
    spool = str(place.home / "spool")
    place(dcron, "agent", "--once", "--policy", str(policy), DCRON_DB=url, DCRON_SPOOL=spool)
    runs = json.loads(place(dcron, "runs", "--json", DCRON_DB=url))
    assert [run["task"] for run in runs if run["state"] == "succeeded"] == ["first"]
    assert place(dcron, "logs", "first", DCRON_DB=url) == "installed\n"


@dataclass(frozen=True)
class Built:
    """The two files of a release."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def new_place(
    directory_in_memory: Path | None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Place]:
    """Return a function that makes an empty home, in memory if that has room: an environment has 120 MB."""
    root = directory_in_memory or tmp_path_factory.mktemp("install")

    def make(name: str) -> Place:
        home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root))
        return Place(home, root / "caches")

    return make


@pytest.fixture
def place(new_place: Callable[[str], Place]) -> Iterator[Place]:
    """Return an empty home, and remove it."""
    place = new_place("home")
    yield place
    shutil.rmtree(place.home)


@pytest.fixture(scope="session")
def tools(new_place: Callable[[str], Place]) -> Path:
    """Return the bin directory of the programs that build and install packages."""
    place = new_place("tools")
    bin_directory = place.environment("tools")
    place(bin_directory / "pip", "install", "-q", "build", "hatch-vcs", "hatchling", "pipx", "uv")
    return bin_directory


@pytest.fixture(scope="session")
def source(new_place: Callable[[str], Place]) -> Path:
    """Return a clone of the checkout with the changes that are not committed, as one commit."""
    place = new_place("source")
    clone = place.home / "dcron"
    place("git", "clone", "-q", "--no-hardlinks", ROOT, clone)
    place("git", "-C", clone, "config", "user.name", "Ada")
    place("git", "-C", clone, "config", "user.email", "ada@example.org")
    changed = place("git", "-C", ROOT, "ls-files", "-mo", "--exclude-standard", "-z").split("\0")
    for name in filter(None, changed):
        target = clone / name
        target.unlink(missing_ok=True)
        if (ROOT / name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode)
    place("git", "-C", clone, "add", "-A")
    place("git", "-C", clone, "commit", "-q", "--allow-empty", "-m", "Add what is not committed")
    return clone


@pytest.fixture(scope="session")
def built(source: Path, tools: Path, new_place: Callable[[str], Place]) -> Built:
    """Build the sdist, and the wheel from the sdist, both in environments of their own."""
    place = new_place("built")
    place(tools / "python", "-m", "build", "--outdir", place.home, source)
    [sdist] = place.home.glob("*.tar.gz")
    [wheel] = place.home.glob("*.whl")
    return Built(sdist, wheel)
