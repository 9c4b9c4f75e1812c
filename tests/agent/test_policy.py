"""The policy of an agent: read, kept, read anew, published; and what it refuses."""

import json
import logging
import os
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from dcron.agent import admission
from dcron.agent.admission import GRACE, Admission
from dcron.agent.execution import job_for
from dcron.config.files import Config
from dcron.config.policy_file import PolicyError, PolicyPath, policy_path, read_policy
from dcron.errors import Refused, UsageError
from dcron.model import RunState, Trigger
from dcron.nodepolicy import judge as judging
from dcron.nodepolicy.command import finished
from dcron.nodepolicy.machine import ThisMachine
from dcron.store.runs.candidates import ClaimedRun
from dcron.warden.accounts import Account
from tests.support.node import World

ROOT = Account("root", 0, any_account=True)
OTHER = Account("daemon", 1, any_account=False)
DAY = date(2026, 11, 20)
ANY = 'accounts = ["*", "root"]\n'
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def write(path: Path, text: str) -> PolicyPath:
    path.write_text(text)
    return PolicyPath(path, True)


def of(tmp_path: Path, text: str, account: Account = ROOT) -> Admission:
    return Admission(write(tmp_path / "p.toml", text), account, "web-1", tmp_path / "spool", DAY)


def run_of(world: World, name: str = "job", **fields: Any) -> ClaimedRun:
    """A claimed run of a new task."""
    task = world.add(name, "0 0 1 1 *", **fields)
    spec = json.loads(json.dumps(task.spec()))
    return ClaimedRun(1, task, Trigger.MANUAL, 1, world.clock.now, None, spec)


# The file --------------------------------------------------------------------------------------------------


def test_a_refusal_names_node_file_line_and_entry(world: World, tmp_path: Path) -> None:
    text = 'accounts = ["daemon"]\n[[allow]]\nname = "shop jobs"\nprogram = ["/usr/bin/true"]\n'
    policy, path = of(tmp_path, text), tmp_path / "p.toml"
    assert policy.check(run_of(world, "a", user="daemon", argv=("/usr/bin/true",))) is None
    refused = policy.check(run_of(world, "b", user="daemon", argv=("/usr/bin/id",)))
    assert refused == f'web-1\'s policy ({path}, line 2, "shop jobs"): program /usr/bin/id is not allowed'
    assert policy.check(run_of(world, "c")) == (
        f"web-1's policy ({path}, line 1): tasks of user root are not accepted"
    )


def test_a_named_policy_must_be_there_and_be_right(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no policy"):
        Admission(PolicyPath(tmp_path / "none", True), ROOT, "web-1", tmp_path)
    with pytest.raises(PolicyError, match="line 1: unknown key 'x'"):
        of(tmp_path, "x = 1")


@pytest.mark.parametrize("kind", ["fifo", "folder", "link to a device", "binary"])
def test_what_is_no_text_file_is_refused_and_does_not_block(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.toml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe")
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises((PolicyError, Refused)):
        read_policy(path)


@needs_root
@pytest.mark.parametrize("kind", ["mode", "group", "owner", "link", "folder"])
def test_root_does_not_use_a_file_that_others_can_change(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "p.toml"
    path.write_text(ANY)
    if kind == "mode":
        path.chmod(0o666)
    elif kind == "group":
        path.chmod(0o660)
    elif kind == "owner":
        os.chown(path, 1, 1)
    elif kind == "folder":
        os.chown(folder, 1, 1)
    else:
        path.rename(tmp_path / "real")
        path.symlink_to(tmp_path / "real")
        os.chown(path, 1, 1, follow_symlinks=False)
    with pytest.raises(Refused, match="an agent that runs as root does not use the policy"):
        read_policy(path)


def test_where_the_policy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCRON_POLICY")
    assert policy_path(None, Config()) == PolicyPath(Path("/etc/dcron/policy.toml"), False)
    assert policy_path(None, Config(agent={"policy": "/c"})) == PolicyPath(Path("/c"), True)
    monkeypatch.setenv("DCRON_POLICY", "/e")
    assert policy_path(None, Config(agent={"policy": "/c"})).path == Path("/e")
    assert policy_path("/o", Config(agent={"policy": "/c"})).path == Path("/o")


# Read anew -------------------------------------------------------------------------------------------------


def test_a_changed_file_is_in_force_with_the_next_beat(world: World, tmp_path: Path) -> None:
    policy, run = of(tmp_path, ANY), run_of(world)
    assert policy.check(run) is None
    assert not policy.refresh(DAY)
    write(tmp_path / "p.toml", 'accounts = ["daemon"]\n')
    assert policy.refresh(DAY)
    assert policy.check(run) is not None
    assert policy.accounts == ("daemon", "1")


@pytest.mark.parametrize("bad", ["accounts = [", "x = 1", None])
def test_a_bad_file_keeps_the_one_before_and_is_reported(
    world: World, tmp_path: Path, bad: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    policy, path = of(tmp_path, 'accounts = ["daemon"]\n'), tmp_path / "p.toml"
    path.write_text(bad) if bad else path.unlink()
    with caplog.at_level(logging.ERROR, "dcron.agent"):
        assert policy.refresh(DAY)
    assert policy.check(run_of(world)) is not None
    assert (policy.accounts, policy.published.error is None) == (("daemon", "1"), False)
    assert "the one before stays in force" in caplog.text
    assert not policy.refresh(DAY), "it is said once"
    write(path, ANY)
    assert policy.refresh(DAY)
    assert (policy.check(run_of(world, "b")), policy.published.error) == (None, None)


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_is_read(
    world: World, tmp_path: Path
) -> None:
    policy, path, other = of(tmp_path, 'accounts = ["daemon"]\n'), tmp_path / "p.toml", tmp_path / "other"
    other.write_text('accounts = ["backup"]\n')
    about = path.stat()
    os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
    other.replace(path)
    assert policy.refresh(DAY)
    assert policy.accounts[0] == "backup"


# Without a file: the upgrade -------------------------------------------------------------------------------


@pytest.fixture
def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Admission]:
    """An agent of root without a policy, on a spool."""
    spool = tmp_path / "spool"
    spool.mkdir()

    def begin(today: date = DAY, *, ran_before: bool = False, account: Account = ROOT) -> Admission:
        if ran_before:
            (spool / "seen.json").write_text(json.dumps({"x": 1}))
        return Admission(PolicyPath(tmp_path / "none.toml", False), account, "web-1", spool, today)

    return begin


def test_a_new_agent_refuses_root_at_once_also_when_it_starts_again(
    world: World, without: Callable[..., Admission], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dcron.agent"):
        policy = without()
    assert 'accounts = ["*", "root"]' in caplog.text
    assert policy.check(run_of(world, user="daemon")) is None
    refused = policy.check(run_of(world, "b"))
    assert refused is not None
    assert refused.startswith("web-1's policy (there is no /")
    assert policy.accounts == ("*",)
    assert without(ran_before=True).check(run_of(world, "c")) is not None


def test_an_upgraded_agent_runs_root_for_30_days_and_says_so_each_day(
    world: World, without: Callable[..., Admission], caplog: pytest.LogCaptureFixture
) -> None:
    run = run_of(world)
    with caplog.at_level(logging.WARNING, "dcron.agent"):
        policy = without(ran_before=True)
        assert policy.check(run) is None
        for day in (0, 0, 1, 29):
            policy.refresh(DAY + timedelta(days=day))
            assert policy.check(run) is None
    assert caplog.text.count("runs tasks of root until 2026-12-20") == 3
    assert without(DAY + GRACE - timedelta(days=1)).check(run) is None, "a restart does not begin it anew"
    policy.refresh(DAY + GRACE)
    assert policy.check(run) is not None
    assert policy.published.accounts == ("*",)
    assert without(DAY + GRACE).check(run) is not None


def test_an_agent_that_had_a_policy_gets_no_grace_when_it_goes(
    world: World, without: Callable[..., Admission], tmp_path: Path
) -> None:
    write(tmp_path / "none.toml", ANY)
    assert without(ran_before=True).check(run_of(world)) is None
    (tmp_path / "none.toml").unlink()
    assert without().check(run_of(world, "b")) is not None


@pytest.mark.parametrize("text", ["", "tomorrow", "9999-99-99", "none"])
def test_a_mark_that_says_nothing_gives_no_grace(
    world: World, without: Callable[..., Admission], tmp_path: Path, text: str
) -> None:
    (tmp_path / "spool" / "policy-grace").write_text(text)
    assert without(ran_before=True).check(run_of(world)) is not None


def test_a_policy_that_appears_is_used(
    world: World, without: Callable[..., Admission], tmp_path: Path
) -> None:
    policy = without()
    write(tmp_path / "none.toml", ANY)
    assert policy.refresh(DAY)
    assert policy.check(run_of(world)) is None


def test_another_account_needs_no_policy(world: World, without: Callable[..., Admission]) -> None:
    policy = without(account=OTHER)
    assert policy.accounts == ("daemon", "1")


# Kept verdicts ---------------------------------------------------------------------------------------------


def test_a_verdict_is_kept_for_the_same_command_alone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, run = (
        of(tmp_path, ANY + "[[allow]]\nprogram = ['/usr/bin/true']\n"),
        run_of(world, argv=("/usr/bin/true",)),
    )
    judged: list[str] = []
    judge = judging.judge

    def counted(*given: Any) -> Any:
        judged.append("")
        return judge(*given)

    monkeypatch.setattr(admission, "judge", counted)
    for _ in range(3):
        assert policy.check(run) is None
    assert len(judged) == 1
    forged = {**run.spec, "argv": ["/usr/bin/id"]}
    assert policy.check(ClaimedRun(2, run.task, run.trigger, 1, world.clock.now, None, forged)) is not None
    assert policy.check(ClaimedRun(2, run.task, run.trigger, 1, world.clock.now, "x", run.spec)) is not None
    assert len(judged) == 3
    monkeypatch.setattr(admission, "monotonic", lambda: 1e9)
    assert policy.check(run) is None
    assert len(judged) == 4


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "echo a"},
        {"argv": ("id", "-u")},
        {"user": "daemon", "cwd": "/tmp", "stdin": "x", "env": {"A": "1"}},
        {"shell": "/bin/bash"},
        {"env": {"HOME": "/tmp", "PATH": "/usr/bin"}},
    ],
)
def test_what_is_judged_is_what_is_started(world: World, fields: dict[str, Any]) -> None:
    run = run_of(world, **fields)
    machine, spec = ThisMachine(), run.spec
    job = job_for(run, "web-1-00000000", 1.0)
    judged = finished(run.task.name, {}, None, spec, machine.home(spec.get("user")))
    assert (job.user, job.env["SHELL"], job.env["PATH"]) == (judged.user, judged.shell, judged.path)
    assert (job.cwd if judged.cwd else job.at_home) == (judged.cwd or True)
    assert (job.stdin is not None) is judged.stdin
    assert job.argv[-1] == (judged.line if judged.program is None else job.argv[-1])
    assert judged.program is None or job.argv[0] == judged.program


# The agent -------------------------------------------------------------------------------------------------


def accepting(tmp_path: Path, name: str, text: str) -> Admission:
    return Admission(write(tmp_path / f"{name}.toml", text), ROOT, name, tmp_path, DAY)


def test_a_refused_run_goes_to_a_node_that_accepts_it(world: World, tmp_path: Path) -> None:
    strict = accepting(tmp_path, "web-1", ANY + "[[allow]]\nprogram = ['/usr/bin/id']\n")
    one = world.node(admission=strict)
    two = world.node("web-2", admission=accepting(tmp_path, "web-2", ANY))
    for each in (one, two):
        each.heartbeat.step()
    task = world.add("job", "0 0 1 1 *")
    world.crontab.run(task)
    assert one.dispatch() == []
    [again] = two.dispatch()
    [refused] = world.runs(RunState.FAILED)
    assert (refused.exit_code, refused.dead_at, refused.attempt) == (126, None, 1)
    assert refused.reason == (
        f"web-1's policy ({tmp_path}/web-1.toml, line 2): shell lines are not allowed;"
        " it goes to another node"
    )
    assert (world.run(again).attempt, world.run(again).retry_of) == (1, refused.id)


def test_where_no_node_accepts_it_it_fails(world: World, tmp_path: Path) -> None:
    one = world.node(admission=accepting(tmp_path, "web-1", ANY + "[[allow]]\nprogram = ['/usr/bin/id']\n"))
    one.heartbeat.step()
    world.crontab.run(world.add("job", "0 0 1 1 *"))
    assert one.dispatch() == []
    [refused] = world.runs(RunState.FAILED)
    assert refused.reason == f"web-1's policy ({tmp_path}/web-1.toml, line 2): shell lines are not allowed"
    assert refused.dead_at is not None


def test_runs_of_accounts_that_are_not_accepted_are_not_claimed(world: World, tmp_path: Path) -> None:
    one = world.node(admission=accepting(tmp_path, "web-1", 'accounts = ["daemon"]\n'))
    one.heartbeat.step()
    for user in ("root", "0", "bin"):
        world.crontab.run(world.add(f"job-{user}", "0 0 1 1 *", user=user))
    run = world.crontab.run(world.add("own", "0 0 1 1 *", user="daemon"))
    assert one.dispatch() == [run.id]
    assert world.runs(RunState.FAILED) == []
    unserved = {row.task.name: row.unserved for row in world.crontab.list_tasks()}
    assert unserved["job-root"] == "no living agent runs commands as root: web-1 does not accept it (policy)"
    assert unserved["job-bin"] == "no living agent runs commands as bin: web-1 does not accept it (policy)"


def test_a_lane_that_was_forged_gives_nothing(world: World, tmp_path: Path) -> None:
    """Whoever writes the row of a run can put it into any lane, and any account into its copy of the task."""
    one = world.node(admission=accepting(tmp_path, "web-1", 'accounts = ["daemon"]\n'))
    one.heartbeat.step()
    world.crontab.run(world.add("job", "0 0 1 1 *", user="daemon"))
    spec = json.dumps({"command": "id", "user": "00"})
    world.execute(
        text("UPDATE runs SET spec = :spec WHERE state = 'waiting' AND \"trigger\" = 'manual'"),
        {"spec": spec},
    )
    assert one.dispatch() == []
    [refused] = world.runs(RunState.FAILED)
    assert "tasks of user root are not accepted" in (refused.reason or "")


def test_what_the_node_accepts_is_published_with_a_beat(world: World, tmp_path: Path) -> None:
    one = world.node(admission=accepting(tmp_path, "web-1", ANY + "[[allow]]\nuser = ['daemon']\n"))
    one.heartbeat.step()
    [node] = world.crontab.nodes()
    assert (node.accepted_accounts, node.policy_error) == (("*", "root"), None)
    digest = node.policy_digest
    assert digest
    write(tmp_path / "web-1.toml", "accounts = 3")
    one.heartbeat.step()
    [node] = world.crontab.nodes()
    assert (node.policy_digest, "list of texts" in (node.policy_error or "")) == (digest, True)


def test_a_policy_that_is_too_long_publishes_its_accounts_alone(tmp_path: Path) -> None:
    lines = "".join(f'[[allow]]\nline = ["{"x" * 1000}{number}"]\n' for number in range(40))
    policy = of(tmp_path, ANY + lines)
    assert policy.published.rules is not None
    assert "rules" not in policy.published.rules
    assert (policy.published.digest, policy.published.accounts) == (None, ("*", "root"))


def test_held_claims_are_given_back_when_the_policy_changes(world: World, tmp_path: Path) -> None:
    for number in range(6):
        world.add(f"task-{number}")
    one = world.node(slots=2, admission=accepting(tmp_path, "web-1", ANY))
    one.heartbeat.step()
    world.clock.forward(minutes=1)
    one.end(*one.dispatch())
    one.dispatch()
    assert world.runs(RunState.CLAIMED)
    write(tmp_path / "web-1.toml", 'accounts = ["daemon"]\n')
    one.heartbeat.step()
    one.dispatch()
    assert world.runs(RunState.CLAIMED) == []
