"""`logs` of runs that were pruned."""

import os
from pathlib import Path

import pytest

from dcron.database import open_database
from dcron.store.retention.archives import ArchiveDays
from tests.support.cli import Dcron
from tests.support.statistics import do_round, sum_up


@pytest.fixture
def pruned(dcron: Dcron, tmp_path: Path) -> Dcron:
    """Two runs that ended two days ago and are archived: the first is pruned, of the second its output."""
    dcron.done("config", "set", "archive.url", f"file://{tmp_path}/archive")
    dcron.done("add", "-n", "one", "@yearly", "echo out; echo err >&2; exit 3")
    for _ in range(2):
        dcron.done("run", "one")
        dcron.run_due()
    database = open_database(dcron.url)
    shift = "datetime({0}, '-2 days')" if database.is_sqlite else "{0} - interval '2 days'"
    times = ", ".join(f"{each} = {shift.format(each)}" for each in ("started_at", "finished_at"))
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET {times} WHERE finished_at IS NOT NULL")
    sum_up(database)
    assert do_round(database, ArchiveDays())["objects"] == 1
    with database.write() as connection:
        ids = connection.exec_driver_sql("SELECT id FROM runs WHERE finished_at IS NOT NULL ORDER BY id")
        first, _ = ids.scalars()
        connection.exec_driver_sql("DELETE FROM output")
        connection.exec_driver_sql(f"DELETE FROM runs WHERE id = {first}")
    database.close()
    return dcron


def ids(dcron: Dcron) -> tuple[int, int]:
    (second,) = [run["id"] for run in dcron.done("runs", "--state", "failed", "--json").json]
    return second - 1, second


@pytest.mark.slow
def test_logs_reads_a_pruned_run_from_the_archive(pruned: Dcron) -> None:
    _, second = ids(pruned)
    shown = pruned.done("logs", str(second))
    assert (
        sorted(shown.out.encode(errors="surrogateescape")) == sorted(b"out\n\xfferr\n")
        or "err\n" in shown.out
    )
    assert f"run {second} of one: from the archive" in shown.err
    assert "from the archive" in pruned.done("logs", "one").err
    first = next(number for number in range(second - 1, 0, -1) if pruned("logs", str(number)).code == 0)
    shown = pruned.done("logs", str(first))
    assert sorted(shown.out.split()) == ["err", "out"]
    assert shown.err.splitlines() == [f"run {first} of one: from the archive"]
    pieces = pruned.done("logs", str(first), "--json").json
    assert {piece["run"] for piece in pieces} == {first}
    details = pruned.done("view", "--run", str(first), "--json")
    assert (details.json["id"], details.json["output_bytes"] > 0) == (first, True)
    assert f"run {first} was pruned; it is in the archive: file://" in details.err
    assert pruned("logs", str(first), "-f").code == 3
    assert pruned("logs", str(second + 100)).code == 4


@pytest.mark.slow
def test_an_archive_that_is_gone_is_an_error(pruned: Dcron, tmp_path: Path) -> None:
    _, second = ids(pruned)
    for path in (tmp_path / "archive").rglob("*.gz"):
        path.unlink()
    answers = [pruned("logs", str(number)) for number in range(second - 1, 0, -1)]
    assert any(each.code == 1 and "cannot be read" in each.err for each in answers)
    shown = pruned.done("logs", str(second))
    assert (shown.out, "cannot be read" in shown.err) == ("", True)


@pytest.mark.slow
def test_only_what_is_below_the_archive_is_read(pruned: Dcron, tmp_path: Path) -> None:
    """Agents may write the table of objects. It must not make an operator's account read other files."""
    first, _ = ids(pruned)
    other = tmp_path / "other" / "2027-06-01"
    other.mkdir(parents=True)
    os.mkfifo(other / "000-0123456789abcdef.jsonl.gz")
    database = open_database(pruned.url)
    for url in (f"file://{other}/000-0123456789abcdef.jsonl.gz", f"file://{tmp_path}/archive/x/shadow"):
        with database.write() as connection:
            connection.exec_driver_sql(f"UPDATE archives SET url = '{url}'")
        answer = pruned("logs", str(first))
        assert answer.code == 1, answer
        assert "is not below `archive.url`" in answer.err
    database.close()


@pytest.mark.slow
def test_other_content_than_was_recorded_is_not_shown(pruned: Dcron, tmp_path: Path) -> None:
    first, _ = ids(pruned)
    database = open_database(pruned.url)
    for change, why in (("sha256 = '5f'", "SHA-256"), ("bytes = 10", "larger than was recorded")):
        with database.write() as connection:
            connection.exec_driver_sql(f"UPDATE archives SET {change}")
        answer = pruned("logs", str(first))
        assert (answer.code, why in answer.err) == (1, True), answer
    database.close()


def test_an_archive_has_a_url_without_credentials(sqlite: Dcron) -> None:
    assert sqlite("config", "set", "archive.url", "s3://key:secret@bucket").code == 2
    sqlite.done("config", "set", "archive.url", "s3://bucket/dcron/")
    found = {each["name"]: each["value"] for each in sqlite.done("config", "list", "--json").json}
    assert found["archive.url"] == "s3://bucket/dcron"
