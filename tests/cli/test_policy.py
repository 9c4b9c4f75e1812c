"""`dcron policy`, and what other verbs say of the policies of nodes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import DCRON, Dcron

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another account runs its own tasks")
NEVER = "0 0 1 1 *"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "p.toml"


def test_check_shows_what_a_policy_says_of_every_task(sqlite: Dcron, file: Path) -> None:
    sqlite("add", "-n", "good", "--user", "daemon", NEVER, "/usr/bin/true", "x")
    sqlite("add", "-n", "bad", "--user", "daemon", NEVER, "id | wc")
    file.write_text(
        '[[allow]]\nname = "one"\nuser = ["daemon"]\nprogram = ["/usr/bin/true", "/usr/bin/env"]\n'
    )
    shown = sqlite("policy", "check", str(file))
    assert shown.code == 0
    assert 'good  daemon  line 1, "one"  allowed' in shown.out
    assert "refused: shell lines are not allowed" in shown.out
    assert "line 1: one: program /usr/bin/env runs whatever its arguments name" in shown.err
    found = json.loads(sqlite("policy", "check", str(file), "--json").out)
    assert [(each["task"], each["allowed"]) for each in found["verdicts"]] == [("bad", False), ("good", True)]


def test_check_names_every_problem(sqlite: Dcron, file: Path) -> None:
    sqlite("db", "init")
    file.write_text("accounts = []\n[sandbox.x]\n")
    shown = sqlite("policy", "check", str(file))
    assert shown.code == 1
    assert "line 1: accounts is an empty list" in shown.err
    assert "line 2: unknown key 'sandbox'" in shown.err
    found = json.loads(sqlite("policy", "check", str(file), "--json").out)
    assert [each["line"] for each in found["problems"]] == [2, 1]
    assert sqlite("policy", "check", f"{file}x").code == 4


def test_explain_shows_each_key_of_the_nearest_entry(
    sqlite: Dcron, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCRON_POLICY", str(file))
    sqlite("add", "-n", "job", "--user", "daemon", "-e", "BASH_ENV=/x", NEVER, "/usr/bin/true", "x")
    file.write_text('[[allow]]\nuser = ["daemon"]\nprogram = ["/usr/bin/true"]\nenv = ["LANG", "LC_*"]\n')
    shown = sqlite("policy", "explain", "job")
    assert f"this machine, {file}: refused: BASH_ENV is not among LANG, LC_*" in shown.out
    assert "env      no      BASH_ENV is not among LANG, LC_*" in shown.out
    found = json.loads(sqlite("policy", "explain", "job", "--json").out)
    assert [each["key"] for each in found["keys"] if not each["allowed"]] == ["env"]
    assert sqlite("policy", "explain", "job", "--node", "web-9").code == 4


def test_a_suggestion_can_be_checked(sqlite: Dcron, file: Path) -> None:
    sqlite("add", "-n", "a", "--user", "daemon", "--label", "team=shop", NEVER, "/usr/bin/true", "x")
    sqlite("add", "-n", "b", NEVER, "echo \"a\" 'b'")
    file.write_text(sqlite("policy", "suggest").out)
    shown = sqlite("policy", "check", str(file))
    assert (shown.code, shown.out.count(" allowed"), "refused" in shown.out) == (0, 2, False)


@needs_root
@pytest.mark.slow
def test_a_new_agent_of_root_says_what_accepts_its_tasks(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcron.config import policy_file

    if policy_file.POLICY.exists():
        pytest.skip("this machine has a policy")
    sqlite("add", "-n", "job", NEVER, "id")
    sqlite("run", "job")
    environment = {**os.environ, "DCRON_DB": sqlite.url, "DCRON_SPOOL": str(tmp_path / "spool")}
    environment.pop("DCRON_POLICY")
    words = [str(DCRON), "agent", "--once", "--name", "web-1"]
    refused = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert 'one line accepts every account:  accounts = ["*", "root"]' in refused.stderr
    assert json.loads(sqlite("runs", "job", "--json").out)[0]["state"] == "waiting"
    (tmp_path / "new.toml").write_text('accounts = ["*", "root"]\n')
    words += ["--policy", str(tmp_path / "new.toml")]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    assert json.loads(sqlite("runs", "job", "--json").out)[0]["state"] == "succeeded"


@needs_root
def test_an_agent_does_not_start_with_a_policy_that_others_can_change(sqlite: Dcron, file: Path) -> None:
    sqlite("db", "init")
    file.write_text("")
    file.chmod(0o666)
    shown = sqlite("agent", "--once", "--policy", str(file))
    assert (shown.code, "does not use the policy" in shown.err) == (1, True)
    shown = sqlite("agent", "--once", "--policy", f"{file}x")
    assert (shown.code, "there is no policy" in shown.err) == (2, True)


@needs_root
@pytest.mark.slow
def test_a_real_agent_refuses_says_so_before_and_reads_its_policy_on_sighup(
    sqlite: Dcron, file: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    file.write_text('accounts = ["*", "root"]\n[[allow]]\nname = "one"\nprogram = ["/usr/bin/true"]\n')
    environment = {**os.environ, "DCRON_DB": sqlite.url, "DCRON_POLICY": str(file)}
    words = [str(DCRON), "agent", "--name", "web-1"]
    sqlite("db", "init")
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as agent:
        try:
            _wait(lambda: "web-1" in sqlite("nodes").out)
            added = sqlite("add", "-n", "job", NEVER, f"touch {made}")
            refusal = f'web-1\'s policy ({file}, line 2, "one"): shell lines are not allowed'
            assert refusal in added.err
            assert refusal in sqlite("list").out
            assert refusal in sqlite("why", "job").out
            assert "policy-refuses" in sqlite("doctor").out
            sqlite("run", "job", "--wait")
            [run] = [
                run for run in json.loads(sqlite("runs", "job", "--json").out) if run["trigger"] == "manual"
            ]
            assert (run["state"], run["exit_code"], run["reason"]) == ("failed", 126, refusal)
            assert not made.exists()
            file.write_text('accounts = ["*", "root"]\n')
            agent.send_signal(signal.SIGHUP)
            _wait(lambda: refusal not in sqlite("list").out)
            sqlite("run", "job", "--wait")
            assert made.exists()
            file.write_text("nonsense")
            agent.send_signal(signal.SIGHUP)
            _wait(lambda: "policy-not-in-force" in sqlite("doctor").out)
            assert agent.poll() is None
        finally:
            agent.terminate()
            agent.communicate(timeout=60)


def _wait(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
