"""The wheel that users install works in an empty environment, and has what the documentation promises."""

import shutil
import zipfile

import pytest

from scripts import man
from tests.install.conftest import Built, Place, first_task


def test_a_wheel_from_the_sdist_runs_a_first_task(built: Built, place: Place) -> None:
    bin_directory = place.environment("venv")
    place(bin_directory / "pip", "install", "-q", built.wheel)
    first_task(place, bin_directory / "dcron")


def test_a_wheel_has_the_man_page_and_completions(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as content:
        data = {name.partition(".data/data/")[2] for name in content.namelist() if ".data/data/" in name}
    assert data == set(man.FILES.values())


@pytest.mark.skipif(not shutil.which("man"), reason="needs man")
def test_man_finds_the_page_of_an_environment_on_the_path(built: Built, place: Place) -> None:
    bin_directory = place.environment("venv")
    place(bin_directory / "pip", "install", "-q", "--no-deps", built.wheel)
    path = f"{bin_directory}:/usr/bin:/bin"
    found = place("man", "-w", "dcron", PATH=path).strip()
    assert found == str(bin_directory.parent / "share/man/man1/dcron.1")
    assert "DESCRIPTION" in place("man", "dcron", PATH=path, MANPAGER="cat")
