"""Which programs are started without a fork."""

import os
from pathlib import Path

import pytest

from dcron.warden.linux import open_on_root
from dcron.warden.vfork import vfork_program


def native(path: Path) -> bytes:
    """Make a file that begins as a native program."""
    path.write_bytes(b"\x7fELF and more")
    path.chmod(0o755)
    return os.fsencode(path)


@pytest.fixture
def on_root(tmp_path: Path) -> Path:
    """Return a folder, unless it lies on another file system than the root's."""
    try:
        os.close(open_on_root(os.fsencode(tmp_path), os.O_DIRECTORY))
    except OSError:
        pytest.skip("the folder for tests is not on the root file system")
    return tmp_path


def test_the_first_program_that_exists_is_taken(on_root: Path) -> None:
    program = native(on_root / "program")
    assert vfork_program((os.fsencode(on_root / "missing"), program)) == program
    with pytest.raises(FileNotFoundError):
        vfork_program((os.fsencode(on_root / "missing"),))


def test_a_program_that_becomes_a_script_is_quick_no_more(on_root: Path) -> None:
    """What was read of a file is remembered until the file changes."""
    path = on_root / "program"
    program = native(path)
    assert vfork_program((program,)) == program
    with path.open("r+b") as file:
        file.write(b"#!/bin/sh\n")
    assert vfork_program((program,)) is None


def test_relative_paths_and_other_file_systems_are_not_quick() -> None:
    assert vfork_program((b"bin/true",)) is None
    assert vfork_program((b"/proc/self/exe",)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_program_of_another_account_is_not_quick(on_root: Path) -> None:
    program = native(on_root / "program")
    assert vfork_program((program,)) == program
    os.chown(program, 65534, 65534)
    assert vfork_program((program,)) is None
