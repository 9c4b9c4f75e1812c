"""What the judge asks a machine: numbers of accounts, programs on a search path, and where links lead."""

# Texts: a path from a row may be relative or odd, which Path would hide.
# ruff: noqa: PTH116, PTH118, PTH120

import os
import pwd
import stat
import time
from collections.abc import Hashable, Iterator
from typing import Protocol

from dcron.nodepolicy.accounts import ROOT, canonical
from dcron.nodepolicy.grammar import is_plain

LASTS = 60.0
"""Seconds for which an answer about accounts and links is kept."""

_MOST_KEPT = 10_000


class Machine(Protocol):
    """What a machine knows."""

    def account(self, user: str | None) -> Hashable | None:
        """Return what identifies the account, None if it does not exist. `user` None is the agent's own."""

    def is_root(self, account: Hashable) -> bool:
        """Return whether this is root."""

    def programs(self, program: str, path: str) -> list[str] | None:
        """Return the files that may be executed for this first argument; None if that is not known here."""

    def leads_to(self, path: str) -> str:
        """Return the path without links."""


class ThisMachine:
    """The machine of this process. Answers are kept for a minute."""

    def __init__(self) -> None:
        self._accounts: dict[str, int | None] = {}
        self._paths: dict[str, str] = {}
        self._programs: dict[tuple[str, str], list[str]] = {}
        self._fresh_until = 0.0

    def account(self, user: str | None) -> int | None:
        """Return the number of the account, however it is written."""
        if user is None:
            return os.geteuid()
        self._forget()
        if user not in self._accounts:
            self._accounts[user] = _number(user)
        return self._accounts[user]

    def is_root(self, account: Hashable) -> bool:
        """Return whether this is number 0, whatever its name."""
        return account == 0

    def home(self, user: str | None) -> str | None:
        """Return the account's home, as a command gets it; None for an unknown account."""
        try:
            return (pwd.getpwnam(user) if user else pwd.getpwuid(os.getuid())).pw_dir
        except (KeyError, ValueError):
            return None

    def programs(self, program: str, path: str) -> list[str]:
        """Return the files that the kernel may be given for this name, in their order.

        They end with the first that every account can execute: no later one is tried then. A relative one
        depends on the command's directory, so it is returned whether it exists here or not.
        """
        if "/" in program:
            return [program]
        self._forget()
        if (program, path) not in self._programs:
            self._programs[program, path] = list(_search(program, path))
        return self._programs[program, path]

    def leads_to(self, path: str) -> str:
        """Return the path without links."""
        self._forget()
        if path not in self._paths:
            self._paths[path] = os.path.realpath(path)
        return self._paths[path]

    def _forget(self) -> None:
        now = time.monotonic()
        if now < self._fresh_until and len(self._paths) + len(self._programs) < _MOST_KEPT:
            return
        for kept in (self._accounts, self._paths, self._programs):
            kept.clear()
        self._fresh_until = now + LASTS


class OtherMachine:
    """A machine of which only texts are known: the published rules of its node, and its account."""

    def __init__(self, own_account: str | None) -> None:
        self._own = own_account or ROOT

    def account(self, user: str | None) -> str:
        """Return the account as it is written."""
        return canonical(self._own if user is None else user)

    def is_root(self, account: Hashable) -> bool:
        """Return whether this is written as root."""
        return account == ROOT

    def programs(self, program: str, path: str) -> list[str] | None:
        """Return the program if it has a path."""
        return [program] if "/" in program else None

    def leads_to(self, path: str) -> str:
        """Return the path: links over there are not known."""
        return path


def _number(user: str) -> int | None:
    """Look an account up as the start of a command does: by name, then by number."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        pass
    try:
        return pwd.getpwuid(int(user)).pw_uid
    except (KeyError, ValueError, OverflowError):
        return None


def _search(program: str, path: str) -> Iterator[str]:
    for folder in os.get_exec_path({"PATH": path}):
        candidate = os.path.join(folder, program)
        if not is_plain(candidate):
            yield candidate
        elif os.path.lexists(candidate):
            yield candidate
            if _is_open_to_all(candidate):
                return


def _is_open_to_all(path: str) -> bool:
    """Return whether this is a file that every account can execute."""
    try:
        found = os.stat(path)
        ways = {*_folders(path), *_folders(os.path.realpath(path))}
        return (
            stat.S_ISREG(found.st_mode)
            and found.st_mode & 0o111 == 0o111
            and all(os.stat(each).st_mode & 0o111 == 0o111 for each in ways)
        )
    except OSError:
        return False


def _folders(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path
