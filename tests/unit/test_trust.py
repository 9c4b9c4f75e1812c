"""Whether other accounts can change a file: owners, modes, folders above and links."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dcron.config import trust
from dcron.config.files import Config, database_url, load_config
from dcron.database import open_database
from dcron.database.files import problem_with as problem_with_database
from dcron.errors import Refused, UsageError

OTHER = 54321
"""An account without a name."""
Give = Callable[[Path], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Make a file another account's, as far as lstat knows."""
    given: set[Path] = set()
    lstat = Path.lstat

    def of(path: Path) -> os.stat_result:
        found = lstat(path)
        return os.stat_result((*found[:4], OTHER, *found[5:])) if path in given else found

    monkeypatch.setattr(Path, "lstat", of)
    return given.add


def as_account(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of our own, two folders down."""
    path = tmp_path / "folder" / "file"
    path.parent.mkdir(mode=0o755)
    path.touch(0o600)
    return path


def test_an_own_file_in_own_folders_is_safe_also_below_a_sticky_one(file: Path) -> None:
    assert trust.problem_with(file) is None
    file.parent.parent.chmod(0o1777)
    assert trust.problem_with(file) is None, "no other account can rename a folder of ours in it"


def test_what_root_owns_is_safe_for_every_account(
    file: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        as_account(monkeypatch, OTHER)
        assert trust.problem_with(file) is None
    assert trust.problem_with(Path("/etc/passwd")) is None


def test_a_file_of_another_account_is_a_problem(file: Path, give: Give) -> None:
    give(file)
    problem = trust.problem_with(file)
    assert problem
    assert problem.startswith(f"the file {file} belongs to {OTHER}; if you trust what is in it, type: chown ")


def test_a_file_of_ours_in_a_folder_of_another_account_is_a_problem(file: Path, give: Give) -> None:
    give(file.parent)
    problem = trust.problem_with(file)
    assert problem
    assert problem.startswith(f"the folder {file.parent} belongs to {OTHER}; use a folder that belongs to ")
    assert problem == trust.problem_with(file.parent / "not yet there")


@pytest.mark.parametrize("which", ["link", "its folder", "second link", "target"])
def test_every_link_and_what_it_leads_to_counts(tmp_path: Path, file: Path, give: Give, which: str) -> None:
    first, second = tmp_path / "one" / "link", tmp_path / "two" / "link"
    for link, target in ((first, "../two/link"), (second, str(file))):
        link.parent.mkdir()
        link.symlink_to(target)
    assert trust.problem_with(first) is None
    give({"link": first, "its folder": first.parent, "second link": second, "target": file}[which])
    assert trust.problem_with(first)


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [(0o620, "chmod g-w"), (0o602, "chmod o-w"), (0o666, "chmod go-w"), (0o604, None), (0o640, None)],
)
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_may_write_is_a_problem_and_the_remedy_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, remedy: str | None, what: str
) -> None:
    monkeypatch.setattr("dcron.config.trust._is_own_group", lambda _: False)
    file = tmp_path / "it's a folder" / "a file"
    file.parent.mkdir()
    file.touch(0o600)
    guilty = file if what == "file" else file.parent
    guilty.chmod(mode if what == "file" else mode | 0o111)
    problem = trust.problem_with(file)
    if remedy is None:
        assert problem is None
        return
    assert problem
    assert f"mode {guilty.stat().st_mode & 0o7777:04o}" in problem
    command = problem.partition("type: ")[2]
    assert command.startswith(remedy)
    subprocess.run(command, shell=True, check=True)  # noqa: S602
    assert trust.problem_with(file) is None


def test_a_sticky_folder_is_no_place_for_what_is_yet_to_be_made(tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    drop.chmod(0o1777)
    (drop / "mine").touch(0o600)
    assert trust.problem_with(drop / "mine") is None
    for path in (drop, drop / "later", drop / "later" / "still"):
        problem = trust.problem_with(path)
        assert problem
        assert f"every account (mode 1777) can make files in the folder {drop}" in problem


def test_a_database_right_in_a_sticky_folder_is_a_problem_for_its_journals(tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    drop.chmod(0o1777)
    (drop / "x.db").touch(0o600)
    assert "can make files in the folder" in (problem_with_database(drop / "x.db") or "")
    drop.chmod(0o755)
    assert problem_with_database(drop / "x.db") is None


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_what_sqlite_keeps_beside_its_file_counts(tmp_path: Path, give: Give, suffix: str) -> None:
    real = tmp_path / "real" / "x.db"
    real.parent.mkdir()
    for name in ("x.db", f"x.db{suffix}"):
        (real.parent / name).touch(0o600)
    (tmp_path / "link.db").symlink_to(real)
    assert problem_with_database(tmp_path / "link.db") is None
    give(real.with_name(f"x.db{suffix}"))
    assert f"x.db{suffix} belongs to" in (problem_with_database(tmp_path / "link.db") or "")


def test_ways_that_lead_nowhere_end(tmp_path: Path, file: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert trust.problem_with(tmp_path / "loop") is None
    assert trust.problem_with(file / "below") is None
    assert trust.problem_with(file.parent / ".." / "folder" / "file") is None
    assert trust.problem_with(Path("/dev/null")) is None


def test_the_own_group_of_an_account_counts_as_the_account_except_for_root(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o660)
    owner = SimpleNamespace(pw_name="ann", pw_gid=file.stat().st_gid)
    group = SimpleNamespace(gr_name="ann", gr_gid=owner.pw_gid, gr_mem=["ann"])
    monkeypatch.setattr("pwd.getpwuid", lambda _: owner)
    monkeypatch.setattr("grp.getgrgid", lambda _: group)
    uid = file.stat().st_uid
    as_account(monkeypatch, uid or OTHER)
    assert trust.problem_with(file) is None
    group.gr_mem = ["ann", "bob"]
    assert "can be written by the group ann (mode 0660)" in (trust.problem_with(file) or "")
    group.gr_mem, group.gr_name = [], "staff"
    assert "can be written by the group staff" in (trust.problem_with(file) or "")
    group.gr_name = "ann"
    if uid == 0:
        as_account(monkeypatch, 0)
        assert "can be written by the group ann" in (trust.problem_with(file) or "")


def test_a_file_is_readable_by_all_only_through_open_folders(file: Path) -> None:
    file.chmod(0o644)
    assert not trust.can_be_read_by_all(file), "pytest's own folder is closed"
    assert trust.can_be_read_by_all(Path("/etc/passwd"))
    assert not trust.can_be_read_by_all(file / "missing")


def test_a_strict_database_is_refused_before_its_file_is_made(tmp_path: Path, give: Give) -> None:
    (tmp_path / "theirs").mkdir()
    give(tmp_path / "theirs")
    path = tmp_path / "theirs" / "dcron.db"
    strict = open_database(f"sqlite:///{path}", strict=True)
    with pytest.raises(Refused, match="an agent that runs as root does not use the database"), strict.read():
        pass
    assert not path.exists()
    lenient = open_database(f"sqlite:///{path}")
    with lenient.read() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    lenient.close()


def test_root_does_not_read_a_config_file_that_others_can_change(
    tmp_path: Path, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('database = "sqlite:////srv/theirs.db"')
    monkeypatch.setenv("DCRON_CONFIG", str(path))
    give(path)
    blamed = f"file {path}" if os.geteuid() == 0 else "folder "  # its folder is not root's either
    as_account(monkeypatch, 0)
    found = load_config()
    assert found.database is None
    assert f"root does not read the config file {path}: the {blamed}" in found.distrusted[0]
    assert " belongs to " in found.distrusted[0]
    assert database_url("sqlite:////srv/mine.db", found) == "sqlite:////srv/mine.db"
    with pytest.raises(UsageError, match="it may name the database"):
        database_url(None, found)


def test_others_read_it_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, give: Give) -> None:
    path = tmp_path / "config.toml"
    path.write_text('database = "sqlite:////srv/theirs.db"')
    monkeypatch.setenv("DCRON_CONFIG", str(path))
    give(path)
    as_account(monkeypatch, tmp_path.stat().st_uid or OTHER + 1)
    found = load_config()
    assert (found.database, found.database_file) == ("sqlite:////srv/theirs.db", path)
    assert f"other accounts can change the config file {path}" in found.distrusted[0]
    assert found.unread == ()
    path.unlink()
    monkeypatch.delenv("DCRON_CONFIG")
    assert load_config() == Config()
