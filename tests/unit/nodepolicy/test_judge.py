"""What a policy says of a finished command, and the ways around it that do not work."""

import os
import pwd
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from dcron.nodepolicy.command import finished
from dcron.nodepolicy.grammar import Policy, read
from dcron.nodepolicy.judge import Verdict, checks, judge
from dcron.nodepolicy.machine import OtherMachine, ThisMachine

ENTRY = """\
[[allow]]
user = ["daemon"]
program = ["/usr/bin/true"]
"""


class Machine(ThisMachine):
    """This machine, with a program wherever a test says, and an account for the agent."""

    def __init__(self, own: int = 0, **accounts: int) -> None:
        super().__init__()
        self.own = own
        self.accounts = accounts

    def account(self, user: str | None) -> int | None:
        if user is None:
            return self.own
        return self.accounts.get(user, super().account(user))


def policy(text: str) -> Policy:
    found = read(text)
    assert isinstance(found, Policy), found
    return found


def verdict(text: str, machine: ThisMachine | None = None, **spec: Any) -> Verdict:
    facts = {"task": "shop-a", "labels": {"team": "shop"}, "source": "apply:shop", "payload": False}
    given = {name: spec.pop(name, value) for name, value in facts.items()}
    here = machine or ThisMachine()
    home = here.home(spec.get("user"))
    return judge(policy(text), finished(spec=spec, home=home, **given), here)


def allowed(text: str, machine: ThisMachine | None = None, **spec: Any) -> bool:
    return verdict(text, machine, **spec).allowed


# Accounts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["root", "0", "00", "+0", " 0 ", "0_0", "٠", "-0", None])
def test_root_is_refused_however_it_is_written(user: str | None) -> None:
    found = verdict("", Machine(own=0), user=user, command="id")
    assert (found.allowed, found.reason) == (False, "tasks of user root are not accepted")


@pytest.mark.parametrize("user", ["root", "0", "00", None])
def test_root_needs_its_name_among_the_accounts(user: str | None) -> None:
    assert allowed('accounts = ["*", "root"]', Machine(own=0), user=user, command="id")
    assert allowed('accounts = ["0"]', Machine(own=0), user=user, command="id")


def test_another_name_of_number_0_is_root() -> None:
    assert not allowed("", Machine(toor=0), user="toor", command="id")
    assert (
        verdict("", Machine(toor=0), user="toor", command="id").reason
        == "tasks of user root are not accepted"
    )


def test_accounts_are_compared_by_number() -> None:
    number = str(pwd.getpwnam("daemon").pw_uid)
    for user in ("daemon", number, f"0{number}"):
        assert allowed('accounts = ["daemon"]', user=user, command="id")
        assert allowed(f'accounts = ["{number}"]', user=user, command="id")
    assert not allowed('accounts = ["daemon"]', user="bin", command="id")


@pytest.mark.parametrize("user", ["no-such-user", "", "4294967296", "9" * 50, "a\0b"])
def test_an_unknown_account_is_refused(user: str) -> None:
    assert "there is no user" in verdict('accounts = ["*", "root"]', user=user, command="id").reason


def test_an_agent_of_another_account_runs_its_own_tasks() -> None:
    assert allowed("", Machine(own=1000), command="id")
    assert not allowed('accounts = ["daemon"]', Machine(own=1000), command="id")


# Programs --------------------------------------------------------------------------------------------------


def test_a_program_is_allowed_by_its_path_and_by_its_folder() -> None:
    assert allowed(ENTRY, user="daemon", argv=["/usr/bin/true", "--any", "words"])
    assert allowed(ENTRY.replace("true", ""), user="daemon", argv=["/usr/bin/true"])
    found = verdict(ENTRY, user="daemon", argv=["/usr/bin/id"])
    assert (found.allowed, found.reason, found.line) == (False, "program /usr/bin/id is not allowed", 1)


@pytest.mark.parametrize(
    "program",
    [
        "/usr/bin/../bin/true",
        "/usr/bin/./true",
        "//usr/bin/true",
        "/usr//bin/true",
        "/usr/bin/true/",
        "./true",
        "../../usr/bin/true",
        "usr/bin/true",
        "/proc/self/root/usr/bin/true",
        "/proc/self/cwd/usr/bin/true",
        "/usr/bin/true\n",
        "/USR/BIN/TRUE",
        "-true",
        "",
    ],
)
def test_another_way_to_write_a_program_is_another_program(program: str) -> None:
    assert not allowed(ENTRY, user="daemon", argv=[program])


def test_a_name_is_searched_in_the_path_of_the_task(tmp_path: Path) -> None:
    own = tmp_path / "true"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert allowed(ENTRY, user="daemon", argv=["true"])
    with_path = ENTRY + 'env = ["PATH"]\n'
    for path in (str(tmp_path), f"{tmp_path}:/usr/bin"):
        found = verdict(with_path, user="daemon", argv=["true"], env={"PATH": path})
        assert found.reason == f"program {own} is not allowed"
    assert allowed(with_path, user="daemon", argv=["true"], env={"PATH": f"/usr/bin:{tmp_path}"})


@pytest.mark.parametrize("path", ["", ".", ":/usr/bin", "bin:/usr/bin", "/usr/bin/..", "../usr/bin:/usr/bin"])
def test_a_relative_folder_of_the_path_is_refused(path: str) -> None:
    text = ENTRY + 'env = ["PATH"]\n'
    assert not allowed(text, user="daemon", argv=["true"], env={"PATH": path})


def test_a_program_that_the_account_cannot_execute_does_not_hide_the_next(tmp_path: Path) -> None:
    """Exec goes on to the next folder of the path where one file cannot be executed."""
    first, second = tmp_path / "a" / "job", tmp_path / "b" / "job"
    for each, mode in ((first, 0o700), (second, 0o755)):
        each.parent.mkdir()
        each.write_text("#!/bin/sh\n")
        each.chmod(mode)
    text = f'[[allow]]\nprogram = ["{first}"]\nenv = ["PATH"]\n'
    found = verdict(text, user="daemon", argv=["job"], env={"PATH": f"{first.parent}:{second.parent}"})
    assert found.reason == f"program {second} is not allowed"


def test_a_link_in_an_allowed_folder_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    (tmp_path / "real").write_text("#!/bin/sh\n")
    (tmp_path / "same").symlink_to("real")
    text = f'[[allow]]\nprogram = ["{tmp_path}/"]\n'
    assert not allowed(text, user="daemon", argv=[f"{tmp_path}/sh", "-c", "id"])
    assert allowed(text, user="daemon", argv=[f"{tmp_path}/same"])
    assert not allowed(text, user="daemon", argv=[str(tmp_path)])
    assert not allowed(text, user="daemon", argv=[f"{tmp_path}x/real"])


def test_a_link_to_an_allowed_program_is_not_that_program(tmp_path: Path) -> None:
    """A program with many names does what its name says."""
    (tmp_path / "busybox").write_text("#!/bin/sh\n")
    (tmp_path / "sh").symlink_to("busybox")
    text = f'[[allow]]\nprogram = ["{tmp_path}/busybox"]\n'
    assert allowed(text, user="daemon", argv=[f"{tmp_path}/busybox"])
    assert not allowed(text, user="daemon", argv=[f"{tmp_path}/sh", "-c", "id"])


def test_an_allowed_link_is_the_program_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "ls").symlink_to("busybox")
    text = f'[[allow]]\nprogram = ["{tmp_path}/ls"]\n'
    assert allowed(text, user="daemon", argv=[f"{tmp_path}/ls"])
    assert not allowed(text, user="daemon", argv=[f"{tmp_path}/busybox", "sh"])


def test_a_missing_program_is_refused() -> None:
    found = verdict(ENTRY, user="daemon", argv=["no-such-program"])
    assert found.reason == "there is no program 'no-such-program'"


# Lines -----------------------------------------------------------------------------------------------------

LINE = """\
[[allow]]
line = ["/usr/bin/true >/dev/null 2>&1", "/usr/bin/id -u daemon"]
"""


def test_a_line_is_allowed_to_the_letter() -> None:
    assert allowed(LINE, user="daemon", command="/usr/bin/true >/dev/null 2>&1")
    for other in (
        "/usr/bin/true >/dev/null 2>&1 ",
        " /usr/bin/true >/dev/null 2>&1",
        "/usr/bin/true >/dev/null 2>&1\n",
        "/usr/bin/true >/dev/null 2>&1; id",
        "/usr/bin/true  >/dev/null 2>&1",
        "",
    ):
        assert verdict(LINE, user="daemon", command=other).reason == "this shell line is not allowed"


def test_a_line_also_stands_for_arguments() -> None:
    assert allowed(LINE, user="daemon", argv=["/usr/bin/id", "-u", "daemon"])
    assert not allowed(LINE, user="daemon", argv=["/usr/bin/id", "-u daemon"])
    assert not allowed(LINE, user="daemon", argv=["/usr/bin/true", ">/dev/null", "2>&1"])
    assert not allowed(LINE, user="daemon", argv=["/bin/sh", "-c", "/usr/bin/true >/dev/null 2>&1"])


def test_a_shell_line_is_never_judged_by_its_program() -> None:
    found = verdict(ENTRY, user="daemon", command="/usr/bin/true")
    assert found.reason == "shell lines are not allowed"


def test_shell_true_allows_every_line() -> None:
    text = '[[allow]]\nuser = ["daemon"]\nshell = true\n'
    assert allowed(text, user="daemon", command="id; anything")
    assert not allowed(text, user="bin", command="id")


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_the_usual_shells_need_no_entry(shell: str) -> None:
    assert allowed(LINE, user="daemon", command="/usr/bin/true >/dev/null 2>&1", shell=shell)


@pytest.mark.parametrize(
    "spec", [{"command": "/usr/bin/true >/dev/null 2>&1"}, {"argv": ["/usr/bin/id", "-u", "daemon"]}]
)
def test_another_shell_is_refused_also_where_it_is_only_named_in_the_environment(
    spec: dict[str, Any],
) -> None:
    """`flock -c` and others run what SHELL says."""
    found = verdict(LINE, user="daemon", shell="/home/daemon/sh", **spec)
    assert found.reason == "shell /home/daemon/sh is not allowed"
    assert allowed(LINE + 'program = ["/usr/bin/zsh"]\n', user="daemon", shell="/usr/bin/zsh", **spec)


# Variables -------------------------------------------------------------------------------------------------


def test_variables_need_their_names() -> None:
    text = ENTRY + 'env = ["LANG", "LC_*", "TZ"]\n'
    argv = ["/usr/bin/true"]
    assert allowed(text, user="daemon", argv=argv, env={"LANG": "C", "LC_ALL": "C", "TZ": "UTC"})
    found = verdict(text, user="daemon", argv=argv, env={"LANG": "C", "FOO": "1"})
    assert found.reason == "FOO is not among LANG, LC_*, TZ"
    assert "there are none" in verdict(ENTRY, user="daemon", argv=argv, env={"LANG": "C"}).reason


DANGEROUS = [
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "IFS", "PATH", "SHELLOPTS", "SHELL"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "GIT_SSH_COMMAND"),
    *("JAVA_TOOL_OPTIONS", "BASH_FUNC_true%%", "HOME", "GCONV_PATH", "GLIBC_TUNABLES", "PS4", "LESSOPEN"),
]


@pytest.mark.parametrize("name", DANGEROUS)
def test_no_wildcard_matches_a_variable_that_changes_what_runs(name: str) -> None:
    argv = ["/usr/bin/true"]
    for pattern in ("*", f"{name[:2]}*", f"{name}*", f"*{name}"):
        text = f'{ENTRY}env = ["{pattern}"]\n'
        assert not allowed(text, user="daemon", argv=argv, env={name: "/usr/bin"}), pattern
    home = pwd.getpwnam("daemon").pw_dir
    assert allowed(f'{ENTRY}env = ["{name}"]\n', user="daemon", argv=argv, env={name: home})


@pytest.mark.parametrize("name", ["LC_ALL=1\0LD_PRELOAD", "LD_PRELOAD=/tmp/x.so", "LC_=x", "", "LC_\0"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert not allowed(ENTRY + 'env = ["*"]\n', user="daemon", argv=["/usr/bin/true"], env={name: "x"})


# Directory, stdin, payload ---------------------------------------------------------------------------------


def test_the_directory_is_the_home_or_one_that_is_listed(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "out").symlink_to("/etc")
    text = f'{ENTRY}cwd = ["{tmp_path}/", "/var/tmp"]\n'
    argv = ["/usr/bin/true"]
    home = pwd.getpwnam("daemon").pw_dir
    for cwd in (None, home, str(inside), str(tmp_path), "/var/tmp"):
        assert allowed(text, user="daemon", argv=argv, cwd=cwd), cwd
    for cwd in ("/etc", f"{tmp_path}/out", f"{inside}/../..", "in", "/var/tmp/x", f"{tmp_path}x"):
        assert verdict(text, user="daemon", argv=argv, cwd=cwd).reason == f"directory {cwd} is not allowed"
    assert not allowed(ENTRY, user="daemon", argv=argv, cwd="/tmp")


def test_another_home_is_another_directory() -> None:
    text = ENTRY + 'env = ["HOME"]\n'
    assert not allowed(text, user="daemon", argv=["/usr/bin/true"], env={"HOME": "/tmp"})


def test_stdin_and_payloads_are_allowed_by_their_keys() -> None:
    argv = ["/usr/bin/true"]
    assert "stdin" in verdict(ENTRY, user="daemon", argv=argv, stdin="").reason
    assert "payload" in verdict(ENTRY, user="daemon", argv=argv, payload=True).reason
    assert allowed(ENTRY + "stdin = true\n", user="daemon", argv=argv, stdin="x")
    assert allowed(ENTRY + "payload = true\n", user="daemon", argv=argv, payload=True)


# Scope, and several entries --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "fits", "does_not"),
    [
        ('task = ["shop-*"]', {"task": "shop-a"}, {"task": "pay-shop-a"}),
        ('task = ["shop-*"]', {"task": "shop-"}, {"task": "SHOP-a"}),
        ('label = ["team=shop"]', {}, {"labels": {"team": "pay"}}),
        ('label = ["team=*"]', {}, {"labels": {"xteam": "shop"}}),
        ('label = ["team=shop"]', {}, {"labels": {}}),
        ('source = ["apply:shop*"]', {}, {"source": "apply:pay"}),
        ('source = ["apply:*"]', {}, {"source": None}),
        ('user = ["daemon"]', {}, {"user": "bin"}),
    ],
)
def test_each_key_of_the_scope(key: str, fits: dict[str, Any], does_not: dict[str, Any]) -> None:
    text = f"[[allow]]\n{key}\n"
    spec = {"user": "daemon", "argv": ["/usr/bin/true"]}
    assert allowed(text, **(spec | fits))
    assert not allowed(text, **(spec | does_not))


def test_one_entry_must_allow_all_of_it() -> None:
    text = ENTRY + '[[allow]]\nuser = ["bin"]\nprogram = ["/usr/bin/id"]\nenv = ["LANG"]\n'
    assert allowed(text, user="bin", argv=["/usr/bin/id"], env={"LANG": "C"})
    assert not allowed(text, user="daemon", argv=["/usr/bin/id"])
    found = verdict(text, user="daemon", argv=["/usr/bin/true"], env={"LANG": "C"})
    assert (found.reason, found.line) == ("LANG is not among the allowed names: there are none", 1)
    far = verdict(text, user="bin", argv=["/usr/bin/env"], env={"X": "1"})
    assert far.reason == "no entry allows this task; the nearest is line 4, but program and env differ"


def test_accounts_hold_whatever_an_entry_says() -> None:
    text = 'accounts = ["daemon"]\n[[allow]]\nuser = ["bin"]\nshell = true\n'
    found = verdict(text, user="bin", command="id")
    assert (found.reason, found.line) == ("tasks of user bin are not accepted", 1)


def test_the_checks_say_which_key_refuses() -> None:
    text = ENTRY + 'env = ["LANG"]\n'
    command = finished("a", {}, None, {"user": "daemon", "argv": ["/usr/bin/true"], "env": {"BASH_ENV": "x"}})
    found = checks(policy(text).allow[0], command, ThisMachine())
    assert [(each.key, each.reason) for each in found if not each.allows] == [
        ("env", "BASH_ENV is not among LANG")
    ]


# Other machines --------------------------------------------------------------------------------------------


def other(text: str, own: str = "root", **spec: Any) -> Verdict:
    return judge(policy(text), finished("a", {}, None, spec), OtherMachine(own))


def test_of_another_machine_only_what_is_written_is_known() -> None:
    assert other("", command="id").reason == "tasks of user root are not accepted"
    assert other("", user="00", command="id").reason == "tasks of user root are not accepted"
    assert other("", own="deploy", command="id").allowed
    assert other(ENTRY, user="daemon", argv=["/usr/bin/true"]).allowed
    unsure = other(ENTRY, user="daemon", argv=["true"])
    assert (unsure.allowed, unsure.is_certain) == (False, False)
    assert other(ENTRY, user="daemon", argv=["/usr/bin/id"]).is_certain
    assert other(ENTRY, user="bin", argv=["true"]).is_certain


def test_this_machine_asks_again_after_a_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine, link = ThisMachine(), tmp_path / "link"
    link.symlink_to("/etc")
    assert machine.leads_to(str(link)) == "/etc"
    link.unlink()
    link.symlink_to("/usr")
    assert machine.leads_to(str(link)) == "/etc"
    machine._fresh_until = 0.0
    assert machine.leads_to(str(link)) == "/usr"


def test_the_account_of_the_process_is_its_own() -> None:
    found: Hashable | None = ThisMachine().account(None)
    assert found == os.geteuid()
