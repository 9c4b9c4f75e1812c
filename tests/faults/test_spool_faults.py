"""Spools and journals that are not what a warden wrote: set aside and reported, never fatal."""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from dcron.model import RunState
from dcron.warden.journal import JournalError, JournalReader, JournalWriter, Result
from tests.support.cluster import Cluster, wait_for
from tests.support.patience import PATIENCE

GOOD = Result(
    run_id=7,
    node_id="web-1-0000000a",
    exit_code=0,
    signal=None,
    reason=None,
    message=None,
    started_at=1.0,
    finished_at=2.0,
    cpu=0.1,
    max_rss=None,
    total_bytes=0,
    last_segment=0,
)


def frame(payload: bytes, kind: int = 4, offset: int = 0, time: float = 1.0) -> bytes:
    """Return a frame with a right checksum, as any process of the agent's account can write one."""
    header = struct.pack("<BIQd", kind, len(payload), offset, time)
    return struct.pack("<I", crc32(payload, crc32(header))) + header + payload


def result(**changes: object) -> bytes:
    return json.dumps({**GOOD._asdict(), **changes}).encode()


def read(path: Path) -> Result | None:
    with JournalReader(str(path / "7")) as journal:
        while journal.read():
            pass
        return journal.result


def test_a_result_of_a_newer_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "7.0").write_bytes(frame(result(added_later={"x": 1})))
    assert read(tmp_path) == GOOD


@pytest.mark.parametrize(
    "broken",
    [
        frame(b"{bad json"),
        frame(b"[]"),
        frame(b"\xff\xff"),
        frame(b"[" * 60_000),
        frame(b'{"run_id": 7}'),
        frame(result(run_id=8)),
        frame(result(run_id="7")),
        frame(result(finished_at=None)),
        frame(result(finished_at=1e300)),
        frame(result(started_at=float("nan"))),
        frame(result(exit_code="0")),
        frame(result(reason="forged")),
        frame(result(message="a\0b")),
        frame(result(message="\ud800")),
        frame(result(total_bytes=1 << 63)),
        frame(b"x", kind=9),
        frame(b"x", kind=1, time=float("nan")),
        frame(b"x", kind=1, offset=1 << 63),
    ],
)
def test_a_journal_that_no_warden_wrote_is_an_error_of_its_own(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "7.0").write_bytes(broken)
    with pytest.raises(JournalError):
        read(tmp_path)


def test_a_segment_that_is_no_file_makes_no_reader_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "7.0")
    with pytest.raises(JournalError):
        read(tmp_path)


def test_what_a_warden_writes_is_good(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path / "7"), 1000, 1000)
    writer.write(1, 1.0, b"text")
    assert writer.finish(GOOD)
    assert read(tmp_path) == GOOD


@pytest.mark.parametrize("how", ["json", "fifo", "other run", "number"])
def test_an_agent_starts_beside_a_broken_journal_and_reports_it_once(team: Cluster, how: str) -> None:
    """As often as it starts; and what else was left behind is still recorded."""
    first = team.start_agent("one", lease=5)
    team.wait_until_alive(1)
    for name in ("broken", "whole"):
        team.crontab.run(team.add(name, "0 0 29 2 *", "echo written; sleep 300"))
    wait_for(lambda: len(team.runs(RunState.RUNNING)) == 2, 15, "both run")
    ids = {run.task: run.id for run in team.runs()}
    (spool,) = [lock.parent for lock in (team.directory / "spool-one").glob("*/dcron.lock")]
    wait_for(lambda: all((spool / f"{each}.0").exists() for each in ids.values()), 10, "both write")
    pids = [first.warden(), first.guard(), first.process.pid]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    first.process.wait(PATIENCE)

    journal = spool / f"{ids['broken']}.0"
    if how == "json":
        journal.write_bytes(journal.read_bytes() + frame(b"{bad json"))
    elif how == "other run":
        journal.write_bytes(journal.read_bytes() + frame(result(run_id=ids["whole"])))
    elif how == "number":
        (spool / ("9" * 5000)[:200]).touch()
        (spool / "\u00b2.0").touch()
    else:
        journal.unlink()
        os.mkfifo(journal)
    for _ in range(2):
        second = team.start_agent("one", lease=5)
        wait_for(lambda: any(node.name == "one" for node in team.alive()), 20, "it serves")
        wait_for(lambda: not list(spool.glob("[0-9]*.0")), 15, "the spool is delivered")
        assert second.process.poll() is None
        second.terminate()
        second.wait(20)
    log = second.log.read_text()
    if how != "number":
        assert log.count("is set aside as") == 1
        assert (spool / f"unreadable-{ids['broken']}.0").exists()
    assert "Traceback" not in log


def test_the_memory_of_an_agent_is_closed_before_anything_is_loaded() -> None:
    script = """
import ctypes, sys, types
app = types.ModuleType("dcron.cli.app")
def run():
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), *{"sqlalchemy", "typer"} & set(sys.modules))
app.run = run
sys.modules["dcron.cli"] = types.ModuleType("dcron.cli")
sys.modules["dcron.cli.app"] = app
from dcron.__main__ import main
main()
"""
    for arguments, dumpable in ((["--db", "x", "agent"], "0"), (["list"], "1")):
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [dumpable]
