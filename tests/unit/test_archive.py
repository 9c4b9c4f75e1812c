"""Objects of an archive: each is written once and as a whole, and every byte comes back."""

import gzip
import os
import stat
from datetime import UTC, datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore

from dcron.archive import (
    ArchivedChunk,
    Storage,
    find_run,
    lines,
    open_storage,
    part_name,
    require_url,
    run_line,
)
from dcron.archive.files import FileStorage
from dcron.archive.objects import ObjectStorage
from dcron.errors import ArchiveError, UsageError

AT = datetime(2027, 6, 1, 12, 30, 1, 250_000, tzinfo=UTC)
NAME = "2027-06-01/000-abc.jsonl.gz"


@pytest.fixture(params=["file", "memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "file":
        return FileStorage(tmp_path / "archive")
    if request.param == "memory":
        return ObjectStorage(MemoryStore(), "memory://")
    (tmp_path / "local").mkdir()
    return ObjectStorage(LocalStore(tmp_path / "local"), "file://")


def test_an_object_is_written_once(storage: Storage) -> None:
    storage.put(NAME, b"one")
    storage.put(NAME, b"other")
    assert storage.get(NAME, 1000) == b"one"
    with pytest.raises(ArchiveError, match="cannot be read"):
        storage.get("2027-06-01/001-abc.jsonl.gz", 1000)


class Bucket(BaseHTTPRequestHandler):
    """A server with as much of the S3 protocol as is used."""

    objects: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        """Write an object, unless it has to be new and is not."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        exists = self.path in self.objects and self.headers["If-None-Match"] == "*"
        self.objects.setdefault(self.path, data)
        self._reply(412 if exists else 200, b"")

    def do_GET(self) -> None:
        """Return an object."""
        found = self.objects.get(self.path)
        self._reply(404 if found is None else 200, found or b"")

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Tue, 01 Jun 2027 12:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_bucket_of_a_server_of_ones_own_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        given = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "REGION": "us-east-1"}
        for name, value in {**given, "ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        storage = open_storage("s3://backups/dcron")
        storage.put(NAME, b"one")
        storage.put(NAME, b"other")
        assert storage.get(NAME, 1000) == b"one"
        assert list(Bucket.objects) == [f"/backups/dcron/{NAME}"]
        with pytest.raises(ArchiveError, match="cannot be read"):
            storage.get("2027-06-01/001-abc.jsonl.gz", 1000)
        server.shutdown()


def test_only_the_owner_reads_a_file_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "archive")
    storage.put(NAME, b"one")
    path = tmp_path / "archive" / NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_only_regular_files_below_the_directory_are_read(tmp_path: Path) -> None:
    """A named pipe would wait for ever, and a device has no end."""
    storage = FileStorage(tmp_path / "archive")
    storage.put(NAME, b"12345")
    day = tmp_path / "archive" / NAME.partition("/")[0]
    (tmp_path / "secret").write_bytes(b"s")
    os.mkfifo(day / "pipe")
    (day / "device").symlink_to("/dev/zero")
    (day / "link").symlink_to(tmp_path / "secret")
    (day / "beside").symlink_to(day / NAME.partition("/")[2])
    (tmp_path / "archive" / "other").symlink_to(tmp_path)
    for name in (*(f"{day.name}/{each}" for each in ("pipe", "device", "link", "beside")), "other/secret"):
        with pytest.raises(ArchiveError, match="archive"):
            storage.get(name, 1000)
    assert storage.get(NAME, 5) == b"12345"


def test_an_object_that_is_larger_than_recorded_is_not_read(storage: Storage) -> None:
    storage.put(NAME, b"12345")
    with pytest.raises(ArchiveError, match="larger than was recorded"):
        storage.get(NAME, 4)


def test_an_object_of_one_endless_line_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    with pytest.raises(ArchiveError, match="more than dcron writes"):
        find_run(gzip.compress(bytes(10**6)), 7, "")
    monkeypatch.setattr(lines, "MOST_LINES", 1000)
    with pytest.raises(ArchiveError, match="more than dcron writes"):
        find_run(gzip.compress(b"x\n" * 10**6), 7, "")


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ArchiveError, match="cannot be written"):
        FileStorage(tmp_path / "taken").put(NAME, b"one")


@pytest.mark.parametrize("url", ["file:///srv/archive", "s3://bucket", "s3://bucket/dcron/", "file:///a%20b"])
def test_urls(url: str) -> None:
    assert require_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "/srv/archive",
            "file://srv/archive",
            "file:///",
            "http://host/x",
            "s3:///x",
            "s3://key:secret@b",
        ),
        *("s3://bucket?key=secret", "s3://bucket/a b", "file:///srv/../etc"),
    ],
)
def test_other_texts_are_no_urls(url: str) -> None:
    with pytest.raises(UsageError):
        require_url(url)


@pytest.mark.parametrize(
    "url", ["s3://me:hush@bucket/x", "https://a/b@hush@c", "s3://b/x?key=hush", "s3://b#hush"]
)
def test_a_refused_url_is_quoted_without_its_credentials(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_url(url)
    assert "hush" not in str(refused.value)


def test_a_url_names_its_storage(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/a%20b")
    storage.put(NAME, b"one")
    assert (tmp_path / "a b" / NAME).read_bytes() == b"one"
    assert isinstance(open_storage("s3://bucket/prefix"), ObjectStorage)


@given(st.lists(st.binary(max_size=200)), st.text())
def test_every_byte_comes_back(pieces: list[bytes], reason: str) -> None:
    chunks = [ArchivedChunk(number, "out", AT, piece) for number, piece in enumerate(pieces)]
    text = run_line(7, {"task": "a"}, []) + run_line(81, {"reason": reason, "at": AT}, chunks)
    data = gzip.compress(text)
    digest = sha256(text).hexdigest()
    found = find_run(data, 81, digest)
    assert found
    assert found.output == chunks
    assert found.facts == {"id": 81, "reason": reason, "at": "2027-06-01T12:30:01.250000Z"}
    assert find_run(data, 8, digest) is None
    with pytest.raises(ArchiveError, match="SHA-256"):
        find_run(data, 81, "0" * 64)


@pytest.mark.parametrize("kind", ["empty", "text", "cut off", "no JSON"])
def test_damaged_content_is_an_error(kind: str) -> None:
    cut = gzip.compress(b'{"id":7,"task"')[:-9]
    no_json = gzip.compress(b'{"id":7,x')
    data = {"empty": b"", "text": b"no gzip", "cut off": cut, "no JSON": no_json}[kind]
    with pytest.raises(ArchiveError, match="damaged"):
        find_run(data, 7, "")


def test_the_same_content_has_the_same_name() -> None:
    assert part_name("2027-06-01", 3, "0123456789abcdef0123") == "2027-06-01/003-0123456789abcdef.jsonl.gz"
