"""How commands end: closed pipes, interrupts, programming errors."""

import os
import signal
import subprocess

import pytest

from dcron.services.crontab import Crontab
from tests.support.cli import DCRON, Dcron
from tests.support.patience import PATIENCE, until

pytestmark = pytest.mark.slow


def test_a_closed_pipe_is_no_error(sqlite: Dcron) -> None:
    sqlite.done(
        "import",
        "-",
        "--user",
        "root",
        stdin="".join(f"0 9 * * * job-{number}\n" for number in range(300)).encode(),
    )
    endless = ["preview", "@every 1s", "-n", "9999"]
    for words in (["list", "--json"], endless, [*endless, "--json"]):
        with subprocess.Popen(
            [DCRON, *words],
            env={**os.environ, "DCRON_DB": sqlite.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout
            assert process.stderr
            process.stdout.read(10)
            process.stdout.close()
            err = process.stderr.read().decode()
        assert process.returncode == 0, words
        assert "Error" not in err, words


def test_interrupted_waiting_is_130_and_the_run_stays(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    words = ["run", "--wait", "one"]
    with subprocess.Popen(
        [DCRON, *words], env={**os.environ, "DCRON_DB": sqlite.url}, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: len(sqlite.done("runs", "one", "--json").json) == 2)
        assert process.stderr
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert (
        sqlite.done("runs", "one", "--state", "waiting", "-n", "1", "--json").json[0]["trigger"] == "manual"
    )


def test_an_internal_error_shows_no_password(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(crontab: Crontab) -> None:
        raise RuntimeError("postgresql://me:s3cret@host/db \x1b[31m")

    monkeypatch.setattr(Crontab, "now", fail)
    failed = sqlite("list")
    assert failed.code == 1
    assert "RuntimeError" in failed.err
    assert "bug in dcron" in failed.err
    assert "s3cret" not in failed.err
    assert "\x1b" not in failed.err


def test_errors_are_inert(sqlite: Dcron) -> None:
    for code, *words in (
        (4, "view", "\x1b[31mx"),
        (2, "add", "\x1b]0;x\x07 * * * *", "y"),
        (2, "no\x1b[2Jverb"),
        (2, "list", "--\x1b[2J"),
    ):
        refused = sqlite(*words)
        assert refused.code == code
        assert "\x1b" not in refused.err


@pytest.mark.parametrize("words", ["list", "export", "--help", "add -n other @daily true", "list --json"])
def test_what_cannot_be_written_is_a_sentence(sqlite: Dcron, words: str) -> None:
    sqlite.done("add", "-n", "one", "@daily", "true")
    result = shell(f"{DCRON} {words} >/dev/full", sqlite.url)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last == "dcron: cannot write the output: No space left on device"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("list >&-", 1),
        ("pause one >&- 2>&-", 1),
        ("rm one <&-", 1),
        ("import - <&-", 0),
        ("agent --once <&- >&- 2>&-", 0),
    ],
)
def test_closed_streams_are_empty_and_cannot_be_written_to(sqlite: Dcron, words: str, code: int) -> None:
    sqlite.done("add", "-n", "one", "@daily", "true")
    result = shell(f"{DCRON} {words}", sqlite.url)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    if words.endswith("list >&-"):
        assert result.stderr.endswith("dcron: cannot write the output: Bad file descriptor\n")


def test_an_error_that_cannot_be_written_keeps_its_code(sqlite: Dcron) -> None:
    message = shell(f"{DCRON} view none 2>&1 | true; exit ${{PIPESTATUS[0]}}", sqlite.url)
    assert message.returncode == 4


def shell(line: str, url: str) -> "subprocess.CompletedProcess[str]":
    """What a shell makes of the line."""
    return subprocess.run(
        ["bash", "-c", line], env={**os.environ, "DCRON_DB": url}, capture_output=True, text=True, timeout=60
    )
