"""SQLite files: permissions, file systems, journal mode."""

import os
import sqlite3
from pathlib import Path

import pytest

from dcron.database import files, open_database
from dcron.errors import DatabaseError
from dcron.schema.tables import metadata

MOUNTS = r"""/dev/vda / ext4 rw 0 0
server:/export /mnt/share nfs4 rw 0 0
server:/other /mnt/with\040space cifs rw 0 0
server:/more /mnt/größe nfs rw 0 0
tmpfs /mnt/share/local tmpfs rw 0 0
sshfs#h /mnt/ssh fuse.sshfs rw 0 0
"""


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with shares."""
    read_text = Path.read_text

    def of(path: Path, *rest: str) -> str:
        return MOUNTS if path == Path("/proc/self/mounts") else read_text(path, *rest)

    monkeypatch.setattr(Path, "read_text", of)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "dcron.db"
    old = os.umask(0)
    try:
        files.prepare(path, forced=False)
    finally:
        os.umask(old)
    assert mode(path) == 0o600


def test_a_large_output_is_deleted_without_writing_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "dcron.db"
    connection = sqlite3.connect(path)
    files.set_up(connection, is_new=True)
    connection.execute("CREATE TABLE output (data BLOB)")
    connection.execute("INSERT INTO output VALUES (zeroblob(20000000))")
    beside = [Path(f"{path}-{suffix}") for suffix in ("journal", "wal")]
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("BEGIN")
    connection.execute("DELETE FROM output")
    assert sum(each.stat().st_size for each in beside if each.exists()) < 1_000_000
    connection.execute("COMMIT")
    connection.close()


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "dcron.db"
    path.touch()
    path.chmod(0o640)
    files.prepare(path, forced=False)
    assert mode(path) == 0o640


def test_a_file_just_made_by_another_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "dcron.db"
    path.parent.mkdir()
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(files, "file_system", lambda _: "ext4")
    files.prepare(path, forced=False)
    assert path.is_file()


@pytest.mark.parametrize("directory", ["file/below", "missing"])
def test_a_missing_directory_is_named_and_not_made(tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").touch()
    where = tmp_path / directory
    with pytest.raises(DatabaseError, match=rf"cannot create the database .*: there is no directory {where}"):
        files.prepare(where / "dcron.db", forced=False)
    assert not where.exists()


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/dcron.db", "ext4"),
        ("/mnt/share/dcron.db", "nfs4"),
        ("/mnt/share/not/yet/there/dcron.db", "nfs4"),
        ("/mnt/with space/dcron.db", "cifs"),
        ("/mnt/größe/dcron.db", "nfs"),
        ("/mnt/share/local/dcron.db", "tmpfs"),
        ("/mnt/shared/dcron.db", "ext4"),
        ("/mnt/ssh/dcron.db", "fuse.sshfs"),
    ],
)
def test_the_nearest_mount_has_the_file_system(path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = {
        *map(Path, ("/", "/srv", "/mnt/share", "/mnt/with space", "/mnt/größe", "/mnt/shared", "/mnt/ssh"))
    }
    monkeypatch.setattr(Path, "exists", lambda path: path in exists | {Path("/mnt/share/local")})
    assert files.file_system(Path(path)) == kind


@pytest.mark.usefixtures("mounts")
def test_a_link_is_followed_to_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "dcron.db"
    link.symlink_to("/mnt/share/dcron.db")
    monkeypatch.setattr(Path, "exists", lambda path: path == Path("/mnt/share"))
    assert files.file_system(link) == "nfs4"


@pytest.mark.parametrize("kind", sorted(files.NETWORK_FILE_SYSTEMS))
def test_a_network_file_system_is_refused_unless_forced(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "file_system", lambda _: kind)
    path = tmp_path / "dcron.db"
    refused, forced = open_database(f"sqlite:///{path}"), open_database(f"sqlite:///{path}?force=true")
    with pytest.raises(DatabaseError, match=rf"network file system \({kind}\).*use Postgres"), refused.read():
        pass
    assert not path.exists()
    with forced.read() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    forced.close()
    refused.close()


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_the_write_ahead_log_is_used_where_it_is_safe(version: tuple[int, ...], safe: bool) -> None:
    assert files.wal_is_safe(version) is safe


@pytest.mark.parametrize(("safe", "journal"), [(True, "wal"), (False, "truncate")])
def test_a_connection_commits_durably(
    tmp_path: Path, safe: bool, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "wal_is_safe", lambda: safe)
    connection = sqlite3.connect(tmp_path / "dcron.db")
    try:
        files.set_up(connection)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.isolation_level is None
    finally:
        connection.close()


def test_no_table_has_a_foreign_key() -> None:
    # SQLite checks foreign keys only after `PRAGMA foreign_keys = ON`, which connections do not send.
    assert not any(table.foreign_keys for table in metadata.tables.values())
