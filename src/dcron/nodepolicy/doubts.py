"""What a valid policy allows although its author may not mean it."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

from dcron.nodepolicy.grammar import Entry, Policy, Problem
from dcron.nodepolicy.judge import accepts_account
from dcron.nodepolicy.machine import ThisMachine

_INTERPRETER = re.compile(
    r"(python|perl|ruby|node|nodejs|lua|php|tclsh|guile)[0-9.]*|(ba|da|z|k|fi|c|tc|a)?sh|busybox|env|nice"
    r"|nohup|timeout|setsid|stdbuf|xargs|find|(g|m|n)?awk|sed|ed|vim?|psql|mysql|sqlite[0-9]?|sudo|su|doas|runuser"
    r"|ssh|scp|rsync|git|make|docker|podman|kubectl|systemd-run|systemctl|nsenter|unshare|chroot|flock|parallel"
    r"|watch|script|expect|tar|zip|man|less|more|gdb|strace|at|crontab|dcron|tmux|screen|socat|nc|curl|wget"
)


def doubts(policy: Policy, machine: ThisMachine) -> Iterator[Problem]:
    """Yield what is probably a mistake, with its line."""
    for name in policy.accounts:
        if name != "*" and machine.account(name) is None:
            yield Problem(f"there is no account {name!r} here", policy.lines.get("accounts"))
    for entry in policy.allow:
        for text in _of_entry(entry, policy, machine):
            yield Problem(f"{entry.name}: {text}" if entry.name else text, entry.line)


def _of_entry(entry: Entry, policy: Policy, machine: ThisMachine) -> Iterator[str]:
    users = [machine.account(name) for name in entry.user or ()]
    for name, number in zip(entry.user or (), users, strict=True):
        if number is None:
            yield f"there is no account {name!r} here"
        elif not accepts_account(policy.accounts, number, machine):
            yield f"user {name!r} is not among the accounts of the policy, so the entry allows nothing for it"
    if entry.shell:
        yield "shell = true allows every command: who may write these tasks can do all that the account can"
    elif entry.program is None and entry.lines is None:
        yield "without program and line it allows every program, also a shell"
    for path in entry.program or ():
        yield from _of_program(path, entry, [number for number in users if number])


_FULL_FOLDERS = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")


def _of_program(text: str, entry: Entry, users: list[int]) -> Iterator[str]:
    path = Path(text)
    if text == "/":
        yield "program / allows every program"
    elif text.endswith("/"):
        if path.resolve() in {Path(each).resolve() for each in _FULL_FOLDERS}:
            yield f"program {text} allows shells and interpreters, so every command"
    elif _INTERPRETER.fullmatch(path.name):
        yield f"program {text} runs whatever its arguments name; give the exact lines as `line` instead"
    if not path.exists():
        yield f"there is no {text} here"
    elif writer := _writer(path.resolve(), users):
        yield f"program {text}: {writer}, and could put another program there"


def _writer(path: Path, users: list[int]) -> str | None:
    """Return who besides root can change the file, or a folder above it."""
    for each in (path, *path.parents):
        found = each.stat()
        if found.st_uid in users:
            return f"{each} belongs to the account itself"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"every account can write {each}"
    return None
