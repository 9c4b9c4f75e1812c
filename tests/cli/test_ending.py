"""How command lines end: closed pipes, interrupts, mistakes of ours."""

import os
import signal
import subprocess

import pytest

from dcron.services.crontab import Crontab
from tests.cli.conftest import DCRON, Dcron, until


def test_a_closed_pipe_is_no_error(sqlite: Dcron) -> None:
    sqlite.done("import", "-", stdin="".join(f"0 9 * * * job-{number}\n" for number in range(300)).encode())
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
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert (
        sqlite.done("runs", "one", "--state", "waiting", "-n", "1", "--json").json[0]["trigger"] == "manual"
    )


def test_a_mistake_of_ours_is_admitted_without_passwords(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(crontab: Crontab) -> None:
        raise RuntimeError("postgresql://me:s3cret@host/db \x1b[31m")

    monkeypatch.setattr(Crontab, "now", fail)
    failed = sqlite("list")
    assert failed.code == 1
    assert "RuntimeError" in failed.err
    assert "mistake in dcron" in failed.err
    assert "s3cret" not in failed.err
    assert "\x1b" not in failed.err


def test_errors_are_inert(sqlite: Dcron) -> None:
    for words in (
        ["view", "\x1b[31mx"],
        ["add", "\x1b]0;x\x07 * * * *", "y"],
        ["no\x1b[2Jverb"],
        ["list", "--\x1b[2J"],
    ):
        refused = sqlite(*words)
        assert refused.code == 2
        assert "\x1b" not in refused.err
