"""Find the account of an imported file, and the source that its tasks record."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from dcron.config.files import host_name
from dcron.errors import Refused, UsageError

SPOOLS = (Path("/var/spool/cron/crontabs"), Path("/var/spool/cron/tabs"), Path("/var/spool/cron"))
"""Directories of the crontabs of users; each file has the name of its account."""
SYSTEM = (Path("/etc/crontab"), Path("/etc/cron.d"))
"""Files and directories of crontabs with an account in each line."""
STDIN = "-"


@dataclass(frozen=True)
class Origin:
    """The source of imported tasks."""

    source: str
    """`import:HOST:ACCOUNT:PATH`: the account of the file, and its absolute path or - for stdin."""
    user: str | None
    """The account of tasks without one; None is the agent's."""


def origin_of(file: str, user: str | None) -> Origin:
    """Return the source and account of a file, by cron's rule for crontabs of users.

    Raises Refused for a user's crontab that cron would not run.
    """
    if file == STDIN or not Path(file).is_file():  # a pipe has another path each time
        return Origin(_source(user or account_name(os.getuid()), STDIN), user)
    path = _absolute(file)
    if path.parent in SPOOLS:
        owner = path.name if user else _owner_in_spool(path)
        return Origin(_source(owner, str(path)), user or owner)
    return Origin(_source(account_name(path.stat().st_uid), str(path)), user)


def require_system(file: str) -> None:
    """Raise UsageError for a system file: without --system, its accounts would be read as commands."""
    path = _absolute(file) if file != STDIN else None
    if path and (path in SYSTEM or path.parent in SYSTEM):
        raise UsageError(f"{path} is a system file, with an account in each line: add --system")


def account_name(uid: int) -> str:
    """Return the name of an account, or its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def doubts_about(user: str) -> str | None:
    """Return why commands of this account may fail on this machine, or None."""
    if _account(user) is None:
        return f"this machine has no account {user!r}; a run fails on an agent without it"
    return missing_home(user)


def missing_home(user: str) -> str | None:
    """Return a warning if the account has no home directory on this machine, else None."""
    account = _account(user)
    if account is None or Path(account.pw_dir).is_dir():
        return None
    return f"{user} has no home directory here ({account.pw_dir}): its commands run in / unless cwd is set"


def _account(user: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        return None


def _source(account: str, path: str) -> str:
    # A name may hold any byte but NUL; a column holds UTF-8 on one line.
    printable = "".join(sign if sign.isprintable() else "?" for sign in path)
    return f"import:{host_name()}:{account}:{printable}"


def _absolute(file: str) -> Path:
    """Return the absolute path, without following the last link: its name counts, and cron runs no links."""
    return Path(file).parent.resolve() / Path(file).name


def _owner_in_spool(path: Path) -> str:
    """Return the account of a crontab in the spool: cron takes it from the name, and requires it as owner."""
    try:
        account = pwd.getpwnam(path.name)
    except KeyError:
        raise Refused(
            f"{path} has no owner: there is no account {path.name!r}, and cron does not run it;"
            " name an account: --user USER"
        ) from None
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise Refused(f"{path} is a link, which cron does not run; name an account: --user USER")
    if found.st_uid not in (0, account.pw_uid):
        raise Refused(
            f"{path} belongs to {account_name(found.st_uid)} and not to {path.name}, so cron does not run it;"
            " name an account: --user USER"
        )
    return account.pw_name
