"""`set`, `rm`, `pause` and `resume`."""

import pytest

from dcron.database import Database
from dcron.errors import Conflict
from dcron.services.crontab import Crontab
from tests.cli.test_add import POLICIES, POLICIES_AS_JSON
from tests.support.cli import Dcron, on_terminal


@pytest.mark.slow
def test_set_changes_only_what_is_given(dcron: Dcron) -> None:
    before = dcron.done(
        "add", "-n", "one", "-e", "A=1", "--timeout", "5m", "--json", "@daily", "ls", "-l"
    ).json
    after = dcron.done("set", "one", "--schedule", "0 4 * * *", "--json").json
    changed = {"schedule", "next_run_at", "revision", "version"}
    assert {key for key in before if before[key] != after[key]} <= changed
    assert (after["schedule"], after["version"]) == ("0 4 * * *", 2)


def test_set_takes_the_options_of_add_and_renames(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@daily", "ls", "-l")
    words = ["-n", "two", "-z", "Asia/Tokyo", "--cwd", "/tmp", "--max-running", "3", "--command", "ls -a"]
    task = dcron.done("set", "one", *words, "--json").json
    found = [task[key] for key in ("name", "timezone", "cwd", "max_running", "command", "argv")]
    assert found == ["two", "Asia/Tokyo", "/tmp", 3, "ls -a", None]
    assert dcron("view", "one").code == 4


def test_set_clears_options(sqlite: Dcron) -> None:
    words = [
        "-e",
        "A=1",
        "-e",
        "B=2",
        "-e",
        "C.D=3",
        "--timeout",
        "5m",
        "--stdin",
        "x",
        "--shell",
        "/bin/bash",
    ]
    sqlite.done("add", "-n", "one", *words, "--max-running", "none", "@daily", "ls")
    task = sqlite.done(
        "set", "one", "--timeout", "none", "--clear", "stdin", "--clear", "env.A", "--json"
    ).json
    assert (task["timeout"], task["stdin"], task["env"]) == (None, None, {"B": "2", "C.D": "3"})
    task = sqlite.done("set", "one", "--clear", "env.C.D", "-e", "E=", "--clear", "shell", "--json").json
    assert (task["env"], task["shell"], task["max_running"]) == ({"B": "2", "E": ""}, "/bin/sh", None)
    task = sqlite.done("set", "one", "--clear", "env", "--clear", "max-running", "-e", "F=1", "--json").json
    assert (task["env"], task["max_running"]) == ({"F": "1"}, 1)


@pytest.mark.parametrize(
    ("words", "cleared"),
    [
        (["--timeout", "5m"], "timeout"),
        (["--max-running", "2"], "max-running"),
        (["--except", "none"], "except"),
        (["-e", "A=2"], "env.A"),
    ],
)
def test_what_is_given_and_cleared_at_once_is_refused(sqlite: Dcron, words: list[str], cleared: str) -> None:
    sqlite.done("add", "-n", "one", "-e", "A=1", "--timeout", "1h", "@daily", "x")
    refused = sqlite("set", "one", *words, "--clear", cleared)
    assert refused.code == 2
    assert f"--clear {cleared}: another option gives it a value; leave one of the two out" in refused.err
    assert sqlite.done("view", "one", "--json").json["version"] == 1


def test_set_changes_and_clears_policies(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", *POLICIES, "@daily", "ls")
    words = ["--no-every-node", "--require", "hdd", "--need", "gpu=2", "--limit", "files=9"]
    task = sqlite.done("set", "one", *words, "--deadline", "none", "--json").json
    assert (task["every_node"], task["require"], task["deadline"]) == (False, ["hdd"], None)
    assert task["need"] == {"gpu": 2, "mem": 8 << 30}
    assert task["limit"] == {"mem": 2 << 30, "cpu-time": 120, "core": 0, "files": 9}
    task = sqlite.done("set", "one", "--clear", "need.gpu", "--clear", "limit.core", "--json").json
    assert task["need"] == {"mem": 8 << 30}
    assert task["limit"] == {"mem": 2 << 30, "cpu-time": 120, "files": 9}
    task = sqlite.done("set", "one", "--clear", "need", "--need", "cpu=1", "--json").json
    assert task["need"] == {"cpu": 1}


def test_every_policy_can_be_cleared(dcron: Dcron) -> None:
    plain = dcron.done("add", "-n", "plain", "--json", "@daily", "ls").json
    dcron.done("add", "-n", "one", *POLICIES, "@daily", "ls")
    words = [word for key in POLICIES_AS_JSON for word in ("--clear", key.replace("_", "-"))]
    task = dcron.done("set", "one", *words, "--json").json
    assert {key: task[key] for key in POLICIES_AS_JSON} == {key: plain[key] for key in POLICIES_AS_JSON}


def test_set_shows_the_policies_in_words(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "ls")
    assert (
        "with     up to 3 tries, 1s apart and doubling, to 1h"
        in sqlite.done("set", "one", "--tries", "3").out
    )
    refused = sqlite("set", "one", "--after", "a")
    assert (refused.code, "--schedule '@after a'" in refused.err) == (2, True)


def test_set_refuses_what_the_schedule_leaves_without_meaning(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "--jitter", "30s", "@daily", "ls")
    refused = sqlite("set", "one", "--schedule", "@on deploy")
    assert (refused.code, "leave it out (`set`: --clear jitter)" in refused.err) == (2, True)
    task = sqlite.done("set", "one", "--schedule", "@on deploy", "--clear", "jitter", "--json").json
    assert (task["schedule"], task["jitter"]) == ("@on deploy", None)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--clear", "need.gpu"],
        ["--clear", "limit.mem"],
        ["--clear", "need."],
        ["--clear", "require.a"],
        ["--on-lost", "retry"],
        ["--tries", "0"],
        ["--need", "gpu"],
        ["--clear", "name"],
        ["--clear", "env.NONE"],
        ["--schedule", "99 * * * *"],
        ["--command", ""],
        ["-z", "Nowhere"],
        ["--timeout", "x"],
        ["-n", "a b"],
    ],
)
def test_a_bad_change_changes_nothing(sqlite: Dcron, words: list[str]) -> None:
    sqlite.done("add", "-n", "one", "@daily", "ls")
    assert sqlite("set", "one", *words).code == 2
    assert sqlite.done("view", "one", "--json").json["version"] == 1


def test_a_change_to_the_same_is_none(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "ls")
    assert "unchanged" in sqlite.done("set", "one", "--schedule", "@daily").out
    assert sqlite.done("view", "one", "--json").json["version"] == 1


def test_a_new_name_that_is_taken_is_refused(dcron: Dcron) -> None:
    for name in ("one", "two"):
        dcron.done("add", "-n", name, "@daily", "ls")
    assert dcron("set", "one", "-n", "two").code == 1


def test_a_change_after_another_person_s_names_them(dcron: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    dcron.done("add", "-n", "one", "@daily", "ls")
    read = Crontab.get

    def get_and_be_overtaken(crontab: Crontab, name: str) -> object:
        task = read(crontab, name)
        Crontab(crontab.database, "eve@elsewhere").pause(task)
        return task

    monkeypatch.setattr(Crontab, "get", get_and_be_overtaken)
    refused = dcron("set", "one", "--schedule", "@weekly")
    assert refused.code == 5
    assert "eve@elsewhere" in refused.err
    assert "pause" in refused.err


@pytest.mark.slow
def test_the_service_says_conflict_for_a_stale_version(database: Database) -> None:
    from dcron.model import Definition

    crontab = Crontab(database, "tester")
    task = crontab.add(Definition(name="one", schedule="@daily", timezone="UTC", command="ls"))
    crontab.edit(task, {"timeout": 5.0})
    with pytest.raises(Conflict):
        crontab.edit(task, {"timeout": 6.0})


def test_a_unique_prefix_names_a_task(dcron: Dcron) -> None:
    for name in ("backup", "backup-full", "report"):
        dcron.done("add", "-n", name, "@daily", "ls")
    assert dcron.done("view", "rep", "--json").json["name"] == "report"
    assert dcron.done("view", "backup", "--json").json["name"] == "backup"
    ambiguous = dcron("view", "back")
    assert ambiguous.code == 2
    assert "backup, backup-full" in ambiguous.err
    assert dcron("view", "nothing").code == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["rm"],
        ["rm", "-f"],
        ["run"],
        ["pause"],
        ["resume"],
        ["set", "--tries", "2"],
        ["edit"],
        ["edit", "-f"],
        ["backfill", "--from", "2d", "--to", "now"],
        ["dead", "dismiss"],
        ["dead", "dismiss", "-f"],
    ],
)
def test_verbs_that_change_take_whole_names_alone(dcron: Dcron, words: list[str]) -> None:
    dcron.done("add", "-n", "deploy-prod", "@daily", "true")
    before = dcron.done("view", "deploy-prod", "--json").json
    refused = dcron(*words, "deploy")
    assert (refused.code, refused.out) == (4, "")
    assert "there is no task 'deploy'; this verb takes the whole name: deploy-prod" in refused.err
    dcron.done("add", "-n", "deploy-test", "@daily", "true")
    assert "this verb takes the whole name: deploy-prod, deploy-test" in dcron(*words, "deploy").err
    several = dcron(*words, "deploy-prod", "deploy-tes")
    assert several.code == (2 if words[0] == "backfill" else 4)
    assert dcron.done("view", "deploy-prod", "--json").json == before
    assert dcron.done("runs", "deploy-prod", "--json").json == dcron.done("runs", "deploy-p", "--json").json
    assert len(dcron.done("runs", "deploy-prod", "--json").json) == 1  # its next run, and nothing else


def test_removing_a_name_twice_removes_one_task(dcron: Dcron) -> None:
    for name in ("cleanup", "cleanup-prod-db"):
        dcron.done("add", "-n", name, "@daily", "true")
    dcron.done("rm", "cleanup", "-f")
    assert dcron("rm", "cleanup", "-f").code == 4
    assert dcron.done("list", "--names").out == "cleanup-prod-db\n"


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["run"], "run deploy-prod? [y/N]"),
        (["pause"], "pause deploy-prod? [y/N]"),
        (["set", "--tries", "2"], "set deploy-prod? [y/N]"),
        (["rm"], "remove deploy-prod (@daily, true)? [y/N]"),
    ],
)
def test_on_a_terminal_a_unique_prefix_is_asked_about(sqlite: Dcron, words: list[str], question: str) -> None:
    sqlite.done("add", "-n", "deploy-prod", "@daily", "true")
    before = sqlite.done("view", "deploy-prod", "--json").json
    no = on_terminal(*words, "dep", url=sqlite.url, typed="\n", wait_for="[y/N]")
    assert (no.code, question in no.out) == (1, True)
    assert sqlite.done("view", "deploy-prod", "--json").json == before
    assert on_terminal(*words, "dep", url=sqlite.url, typed="y\n", wait_for="[y/N]").code == 0
    assert sqlite("view", "deploy-prod", "--json").out != before
    forced = on_terminal("rm", "-f", "dep", url=sqlite.url)
    assert forced.code == 4


@pytest.mark.slow
def test_verbs_take_several_names_and_check_all_of_them_first(dcron: Dcron) -> None:
    for name in ("a", "b", "c"):
        dcron.done("add", "-n", name, "@yearly", "true")
    for words in (["rm", "-f"], ["pause"], ["run"], ["set", "--tries", "2"]):
        assert dcron(*words, "a", "b", "nothing").code == 4
        assert [task["version"] for task in dcron.done("list", "--json").json] == [1, 1, 1]
    assert [run["task"] for run in dcron.done("run", "a", "c", "a", "--json").json] == ["a", "c"]
    assert [task["enabled"] for task in dcron.done("pause", "a", "b", "--json").json] == [False, False]
    again = dcron.done("pause", "c", "b", "--json")
    assert ([task["name"] for task in again.json], again.err) == (["c"], "b is paused already\n")
    assert dcron("pause", "c").code == 1
    assert dcron.done("pause", "a", "b").err == "a is paused already\nb is paused already\n"
    dcron.done("resume", "c")
    resumed = dcron.done("resume", "a", "c")
    assert resumed.err == "c is not paused\n"
    assert dcron("resume", "a").code == 1
    dcron.done("resume", "b")
    changed = dcron.done("set", "a", "b", "--tries", "3", "--json").json
    assert [task["tries"] for task in changed] == [3, 3]
    assert dcron("set", "a", "b", "-n", "d").code == 2
    dcron.done("set", "b", "--schedule", "@after a")
    assert dcron("rm", "-f", "a").code == 1
    assert dcron.done("rm", "-f", "a", "b").out == "removed  a\nremoved  b\n"
    assert dcron.done("list", "--names").out == "c\n"


def test_rm_asks_and_without_a_terminal_needs_yes(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@daily", "ls")
    refused = dcron("rm", "one")
    assert (refused.code, "add -y" in refused.err) == (1, True)
    assert dcron.done("list", "--names").out == "one\n"
    dcron.done("rm", "-f", "one")
    assert dcron.done("list", "--json").json == []
    assert dcron("rm", "-f", "one").code == 4


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("typed", "code", "left"), [("\n", 1, 1), ("n\n", 1, 1), ("y\n", 0, 0), ("\x04", 1, 1)]
)
def test_rm_on_a_terminal_takes_only_yes_for_yes(sqlite: Dcron, typed: str, code: int, left: int) -> None:
    sqlite.done("add", "-n", "one", "@daily", "ls")
    answer = on_terminal("rm", "one", url=sqlite.url, typed=typed, wait_for="[y/N]")
    assert "remove one (@daily, ls)? [y/N]" in answer.out
    assert answer.code == code
    assert len(sqlite.done("list", "--json").json) == left


@pytest.mark.terminal
def test_ctrl_c_at_the_question_is_130_and_removes_nothing(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "ls")
    answer = on_terminal("rm", "one", url=sqlite.url, typed="\x03", wait_for="[y/N]")
    assert answer.code == 130
    assert len(sqlite.done("list", "--json").json) == 1


def test_pause_and_resume(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@daily", "ls")
    paused = dcron.done("pause", "one", "--reason", "disk is full", "--json").json
    assert (paused["enabled"], paused["paused_reason"], paused["next_run_at"]) == (
        False,
        "disk is full",
        None,
    )
    assert "paused" in dcron.done("list").out
    assert "disk is full" in dcron.done("view", "one").out
    assert [task["name"] for task in dcron.done("list", "--paused", "--json").json] == ["one"]
    again = dcron("pause", "one")
    assert (again.code, "disk is full" in again.err) == (1, True)
    resumed = dcron.done("resume", "one", "--json").json
    assert (resumed["enabled"], resumed["paused_reason"]) == (True, None)
    assert resumed["next_run_at"]
    assert dcron("resume", "one").code == 1


def test_a_pause_may_have_an_end_in_the_tasks_zone(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "-z", "Asia/Tokyo", "@daily", "ls")
    assert sqlite("pause", "one", "--until", "2001-01-01").code == 2
    assert sqlite("pause", "one", "--until", "whenever").code == 2
    paused = sqlite.done("pause", "one", "--until", "2050-01-01 09:00", "--json").json
    assert paused["paused_until"] == "2050-01-01T00:00:00Z"
