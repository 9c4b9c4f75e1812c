"""Which files a source has, and how bad ones are reported."""

import os
from pathlib import Path

import pytest

from dcron.errors import CrontabFileError, ExitCode
from dcron.sources import SourceText, read
from dcron.sources.files import MAX_SOURCE_BYTES


def source(*paths: Path) -> SourceText:
    return read(paths, timezone="Europe/Berlin")


def refused(*paths: Path) -> str:
    with pytest.raises(CrontabFileError) as error:
        source(*paths)
    assert error.value.exit_code is ExitCode.USAGE
    return str(error.value)


def make(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (directory / f"{stem}.{suffix}").write_text(text)
    return directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty directory; that of the test has files of its own."""
    path = tmp_path / "tasks"
    path.mkdir()
    return path


def test_a_directory_is_its_files_sorted(folder: Path) -> None:
    make(
        folder,
        b_toml='[task.b]\nschedule = "@daily"\ncommand = "b"',
        a_cron="#dcron: name=a\n@daily a\n",
        c_json='[{"name": "c", "schedule": "@daily", "command": "c"}]',
        d_crontab="#dcron: name=d was=old\n@daily d\n",
        README_md="# Tasks",
    )
    (folder / ".hidden.cron").write_text("bad")
    (folder / "deeper").mkdir()
    found = source(folder)
    assert [(task.definition.name, str(task.place), task.was) for task in found.tasks] == [
        ("a", f"{folder}/a.cron:2", None),
        ("b", f"{folder}/b.toml:1", None),
        ("c", f"{folder}/c.json:1", None),
        ("d", f"{folder}/d.crontab:2", "old"),
    ]
    assert {task.definition.timezone for task in found.tasks} == {"Europe/Berlin"}
    assert [notice.message for notice in found.notices] == [
        "not read: deeper; a source is the files that end in .cron, .crontab, .json, .toml"
    ]


def test_a_directory_without_files_of_tasks_is_refused(folder: Path) -> None:
    make(folder, README_md="")
    assert refused(folder) == f"{folder}: no file here ends in .cron, .crontab, .json, .toml"


def test_all_mistakes_of_all_files_are_reported(folder: Path) -> None:
    make(folder, a_cron="x\n@daily a\ny\n", b_json="[1]", c_toml="a", d_cron="@daily ls -l\n")
    assert refused(folder).replace(f"{folder}/", "").split("\n") == [
        "a.cron:1:1: neither NAME=value nor five time fields (or an @word) and a command",
        "a.cron:3:1: neither NAME=value nor five time fields (or an @word) and a command",
        "b.json:1: 1 is no task; write its keys and values",
        "c.toml: this is not TOML: expected '=' after a key in a key/value pair (at end of document)",
        "d.cron:1: the task has no name; write this line above it: #dcron: name=ls",
    ]


def test_names_are_unique_in_all_files(folder: Path) -> None:
    make(
        folder,
        a_cron="#dcron: name=a\n@daily a\n#dcron: name=b was=c\n@daily b\n",
        b_json='[\n{"name": "a", "schedule": "@daily", "command": "x"},\n'
        '{"name": "c", "schedule": "@daily", "command": "x"},\n'
        '{"name": "d", "schedule": "@daily", "command": "x", "was": "c"}]',
    )
    assert refused(folder).replace(f"{folder}/", "").split("\n") == [
        'a.cron:4: was: "c" is a task of its own, at b.json:3; leave out was= once the task is renamed',
        'b.json:2: the name "a" is taken by the task at a.cron:2',
        'b.json:4: was: "c" is a task of its own, at b.json:3; leave out was= once the task is renamed',
    ]


def test_no_two_tasks_were_the_same(folder: Path) -> None:
    make(folder, a_cron="#dcron: name=a was=c\n@daily a\n#dcron: name=b was=c\n@daily b\n")
    assert refused(folder) == f'{folder}/a.cron:4: was: the task at {folder}/a.cron:2 was "c", too'


def test_what_is_no_file_is_refused_in_a_directory(folder: Path) -> None:
    os.mkfifo(folder / "a.cron")
    (folder / "b.json").mkdir()
    (folder / "c.toml").symlink_to("c.toml")
    (folder / "d.cron").write_bytes(b"#dcron: name=d\n@daily \xff\n")
    (folder / "e.json").write_bytes(b"[\0]")
    text = refused(folder).replace(f"{folder}/", "")
    assert text.split("\n") == [
        "a.cron: this is no regular file, and is not read; rename or remove it",
        "b.json: this is a directory within a directory, and is not read; rename or remove it",
        "cannot read c.toml: Too many levels of symbolic links",
        "d.cron:2:8: this is not UTF-8; if it is Latin-1, `iconv -f latin1 -t utf8 d.cron` converts it",
        "e.json:1:2: this is not JSON: expecting value",
    ]


def test_a_link_to_a_file_is_read(folder: Path) -> None:
    (folder / "elsewhere").write_text("#dcron: name=a\n@daily a\n")
    (folder / "a.cron").symlink_to("elsewhere")
    assert [task.definition.name for task in source(folder).tasks] == ["a"]


def test_the_files_have_a_bound_together(folder: Path) -> None:
    (folder / "a.json").write_text("[]" + " " * (MAX_SOURCE_BYTES - 2))
    assert source(folder).tasks == ()
    (folder / "b.json").write_text("[]")
    assert refused(folder) == f"{folder}/b.json: the files have more than 10,000,000 bytes together"
    (folder / "b.json").write_text("[]" + " " * MAX_SOURCE_BYTES)
    assert refused(folder) == f"{folder}/b.json is larger than 10,000,000 bytes"


def test_a_missing_file_is_refused(folder: Path) -> None:
    assert refused(folder / "a.cron") == f"cannot read {folder}/a.cron: No such file or directory"


def test_windows_lines_and_a_byte_order_mark_are_read(folder: Path) -> None:
    (folder / "a.json").write_bytes(
        b'\xef\xbb\xbf[\r\n{"name": "a",\r\n"schedule": "@daily", "command": "x"}]'
    )
    (folder / "b.toml").write_bytes(
        b'\xef\xbb\xbf[task.b]\r\nschedule = "@daily"\r\ncommand = """\r\na\r\nb"""\r\n'
    )
    (folder / "c.cron").write_bytes(b"\xef\xbb\xbf#dcron: name=c\r\n@daily\tx\r\n")
    found = source(folder)
    assert [(task.definition.name, task.definition.command) for task in found.tasks] == [
        ("a", "x"),
        ("b", "a\nb"),
        ("c", "x"),
    ]
