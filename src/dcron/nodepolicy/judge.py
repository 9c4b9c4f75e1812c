"""Judge a finished command by a policy: allowed, or refused with the rule that refuses it."""

import fnmatch
import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

from dcron.nodepolicy.command import DEFAULT_SHELL, Finished
from dcron.nodepolicy.grammar import Entry, Policy, is_plain
from dcron.nodepolicy.machine import Machine

SHELLS = (DEFAULT_SHELL, "/bin/bash")
"""The shells that no entry has to list."""
_BY_FULL_NAME = frozenset(
    (
        *("PATH", "SHELL", "HOME", "IFS", "ENV", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "PS4", "CDPATH"),
        *("GLOBIGNORE", "FPATH", "ZDOTDIR", "PROMPT_COMMAND", "NULLCMD", "READNULLCMD", "TMPPREFIX"),
        *("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "PATH_LOCALE", "LOCALDOMAIN"),
        *("RES_OPTIONS", "HOSTALIASES", "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TERMPATH", "SHLIB_PATH"),
        *("LIBPATH", "AUTHSTATE", "NODE_OPTIONS", "NODE_PATH", "CLASSPATH", "JAVA_TOOL_OPTIONS"),
        *("_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER"),
        *("LESSOPEN", "LESSCLOSE", "PSQLRC", "PGSERVICEFILE", "PGSYSCONFDIR", "MAKEFLAGS", "TAR_OPTIONS"),
        *("RSYNC_RSH", "CURL_HOME", "WGETRC", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"),
        "SSH_ASKPASS",
    )
)
_BEGINNINGS_BY_FULL_NAME = (
    *("LD_", "DYLD_", "_RLD", "BASH_FUNC_", "PYTHON", "PERL", "RUBY", "GEM_", "BUNDLE_", "GIT_", "KRB5_"),
    *("PHP", "LUA_", "SUDO_"),
)
"""Variables that make many programs run something else: no wildcard matches them."""


class Check(NamedTuple):
    """What one key of an entry says of a command."""

    key: str
    allows: bool
    reason: str = ""
    """Why it does not."""


class Verdict(NamedTuple):
    """What a policy says of a command."""

    allowed: bool
    entry: Entry | None = None
    """The entry that allows it, or the nearest one."""
    reason: str = ""
    """Why it is refused."""
    line: int | None = None
    """The line of the file that refuses it."""
    is_certain: bool = True
    """Whether the node itself would say the same: it may depend on files over there."""

    def __str__(self) -> str:
        return self.reason or "allowed"


def judge(policy: Policy, command: Finished, machine: Machine) -> Verdict:
    """Return whether the policy allows the command on this machine."""
    account = machine.account(command.user)
    if account is None:
        return Verdict(False, reason=f"there is no user {command.user!r}")
    if not accepts_account(policy.accounts, account, machine):
        name = "root" if machine.is_root(account) else command.user or account
        reason = f"tasks of user {name} are not accepted"
        return Verdict(False, reason=reason, line=policy.lines.get("accounts"))
    if not policy.allow:
        return Verdict(True)
    for entry in policy.allow:
        for check in _CHECKS.values():
            if check(entry, command, account, machine) is not None:
                break
        else:
            return Verdict(True, entry)
    return _refused(policy.allow, command, account, machine)


def checks(entry: Entry, command: Finished, machine: Machine) -> list[Check]:
    """Return what each key of an entry says of the command."""
    account = machine.account(command.user)
    results = ((key, check(entry, command, account, machine)) for key, check in _CHECKS.items())
    return [Check(key, reason is None, reason or "") for key, reason in results]


def _refused(entries: Sequence[Entry], command: Finished, account: Hashable, machine: Machine) -> Verdict:
    """Name the nearest entry: the one that the fewest keys refuse, the scope of the task counting most."""
    refusals = [
        [
            Check(key, False, reason)
            for key, check in _CHECKS.items()
            if (reason := check(entry, command, account, machine))
        ]
        for entry in entries
    ]
    number = min(range(len(entries)), key=lambda each: _distance(refusals[each]))
    entry, against = entries[number], refusals[number]
    unsure = any(all(each.reason.startswith(UNKNOWN_PROGRAM) for each in of_entry) for of_entry in refusals)
    if len(against) == 1:
        return Verdict(False, entry, against[0].reason, entry.line, is_certain=not unsure)
    keys = [each.key for each in against]
    reason = (
        f"no entry allows this task; the nearest is {entry}, but {', '.join(keys[:-1])} and {keys[-1]} differ"
    )
    return Verdict(False, entry, reason, entry.line, is_certain=not unsure)


def _distance(refusals: Sequence[Check]) -> int:
    return sum(10 if each.key in _SCOPE else 1 for each in refusals)


def accepts_account(accounts: Sequence[str], account: Hashable, machine: Machine) -> bool:
    """Return whether an account is among these; `*` is every account but root."""
    for each in accounts:
        if each == "*":
            if not machine.is_root(account):
                return True
        elif machine.account(each) == account:
            return True
    return False


# The keys of an entry. Each check returns why the entry does not allow the command, or None. -------------


def _task(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if entry.task is None or _matches(entry.task, command.task):
        return None
    return f"{command.task} is not among {_listed(entry.task)}"


def _label(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if entry.label is None or any(
        _matches(entry.label, f"{key}={value}") for key, value in command.labels.items()
    ):
        return None
    return f"it has no label {_listed(entry.label)}"


def _source(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if entry.source is None or (command.source is not None and _matches(entry.source, command.source)):
        return None
    return f"its source {command.source or '(none)'} is not among {_listed(entry.source)}"


def _user(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if entry.user is None or any(machine.account(each) == account for each in entry.user):
        return None
    name = "root" if machine.is_root(account) else command.user or account
    return f"user {name} is not among {_listed(entry.user)}"


UNKNOWN_PROGRAM = "which program it is"
"""How the reason begins that only the node can judge."""


def _program(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if command.program is None or _has_line(entry, command):
        return None
    if entry.program is None:
        return None if entry.lines is None else "its arguments are no line that is allowed"
    found = machine.programs(command.program, command.path)
    if found is None:
        return f"{UNKNOWN_PROGRAM} depends on the machine: {command.program}"
    if not found:
        return f"there is no program {command.program!r}"
    refused = next((each for each in found if not _is_within(each, entry.program, machine)), None)
    return f"program {refused} is not allowed" if refused is not None else None


def _line(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if command.program is not None or entry.shell or _has_line(entry, command):
        return None
    return "this shell line is not allowed" if entry.lines else "shell lines are not allowed"


def _has_line(entry: Entry, command: Finished) -> bool:
    return entry.lines is not None and command.line in entry.lines


def _shell(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    if command.shell in SHELLS or _is_within(command.shell, entry.program or (), machine):
        return None
    return f"shell {command.shell} is not allowed"


def _env(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    refused = [each for each in command.env if not _is_named(each, entry.env or ())]
    if not refused:
        return None
    allowed = _listed(entry.env) if entry.env else "the allowed names: there are none"
    return f"{', '.join(refused)} {'is' if len(refused) == 1 else 'are'} not among {allowed}"


def _is_named(name: str, allowed: Sequence[str]) -> bool:
    if not name or "=" in name or "\x00" in name:
        return False
    if name in _BY_FULL_NAME or name.startswith(_BEGINNINGS_BY_FULL_NAME):
        return name in allowed and "*" not in name
    return _matches(allowed, name)


def _cwd(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    cwd = command.cwd
    if cwd is None or _is_within(cwd, entry.cwd or (), machine, is_folder=True):
        return None
    return f"directory {cwd} is not allowed"


def _stdin(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    return "text on stdin is not allowed" if command.stdin and not entry.stdin else None


def _payload(entry: Entry, command: Finished, account: Hashable, machine: Machine) -> str | None:
    return "a payload is not allowed" if command.payload and not entry.payload else None


_CHECKS: dict[str, Callable[[Entry, Finished, Hashable, Machine], str | None]] = {
    "task": _task,
    "label": _label,
    "source": _source,
    "user": _user,
    "program": _program,
    "line": _line,
    "shell": _shell,
    "env": _env,
    "cwd": _cwd,
    "stdin": _stdin,
    "payload": _payload,
}
_SCOPE = ("task", "label", "source", "user")


def _is_within(path: str, allowed: Sequence[str], machine: Machine, *, is_folder: bool = False) -> bool:
    """Return whether this is one of these paths, or below one of these directories, also behind its links.

    A file is known by the path that was written, not by what it leads to: one program with many names does
    what its name says. A path through `..`, or a relative one, is never within anything.
    """
    if not is_plain(path):
        return False
    if path in allowed:
        return True
    end = "/" if is_folder else ""
    below = [each for each in allowed if each.endswith("/") and f"{path}{end}".startswith(each)]
    return any(f"{machine.leads_to(path)}{end}".startswith(_real(each, machine)) for each in below)


def _real(folder: str, machine: Machine) -> str:
    return f"{machine.leads_to(folder).rstrip('/')}/"


def _matches(patterns: Sequence[str], text: str) -> bool:
    return any(_glob(each)(text) for each in patterns)


@lru_cache(maxsize=10_000)
def _glob(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the match of a pattern whose only wildcard is `*`."""
    return re.compile(fnmatch.translate(pattern)).match


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
