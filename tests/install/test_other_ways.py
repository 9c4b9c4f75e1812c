"""pipx, uv, and the steps of the Dockerfile."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.install.conftest import Place, first_task

WAYS = {
    "pipx": ["pipx", "install", "--python", sys.executable, "."],
    "uv": ["uv", "tool", "install", "--python", sys.executable, "."],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_installs_the_checkout(way: str, source: Path, tools: Path, place: Place) -> None:
    program, *words = WAYS[way]
    place(tools / program, *words, cwd=source)
    first_task(place, place.home / ".local/bin/dcron")


def test_the_steps_of_the_dockerfile_make_an_agent(source: Path, place: Place) -> None:
    """Each stage is an environment: COPY copies into it, RUN pip is its pip."""
    text = re.sub(r"\\\n", " ", (source / "docs/deploy/Dockerfile").read_text())
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    root = place.home / "image"
    bin_directory = root / "usr/local/bin"
    played = []
    for word, rest in steps:
        words = shlex.split(rest)
        if word == "FROM":
            shutil.rmtree(root / "usr", ignore_errors=True)
            place(sys.executable, "-m", "venv", root / "usr/local")
        elif word == "COPY" and words[0] == "--from=build":
            shutil.copytree(root / words[1].lstrip("/"), root / words[2].lstrip("/"), dirs_exist_ok=True)
        elif word == "COPY":
            copy(source, words, root)
        elif word == "RUN" and words[0] == "pip":
            placed = [re.sub(r"(^|=)/", rf"\1{root}/", each) for each in words[1:]]
            place(bin_directory / "pip", *placed)
        else:
            continue
        played.append(word)
    assert played == ["FROM", "COPY", "COPY", "COPY", "RUN", "FROM", "COPY"]
    assert place(bin_directory / "dcron", "--version") == "dcron 0.2.0.dev0\n", "the version without git"
    first_task(place, bin_directory / "dcron")
    place(bin_directory / "python", "-c", "import apprise, obstore")


def copy(source: Path, words: list[str], root: Path) -> None:
    """Copy as COPY does: the content of a directory, a file under its name."""
    *names, target = words
    place = root / target.lstrip("/")
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, place, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, place / name)
