"""Whose an imported file is, and where it comes from: what its tasks run as, and what they remember."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from dcron.config import host_name
from dcron.errors import Refused, UsageError

SPOOLS = (Path("/var/spool/cron/crontabs"), Path("/var/spool/cron/tabs"), Path("/var/spool/cron"))
"""Where crons keep the crontabs of users, each in a file with the account's name."""
SYSTEM = (Path("/etc/crontab"), Path("/etc/cron.d"))
"""Where each line names an account."""
STDIN = "-"


@dataclass(frozen=True)
class Origin:
    """A file to import, as the tasks will remember it."""

    source: str
    """`import:HOST:ACCOUNT:PATH`: the account is that of the file, the path is absolute, or - for stdin."""
    user: str | None
    """The account of lines that name none; None is the agent's own."""


def origin_of(file: str, user: str | None) -> Origin:
    """Return whose the file is, by cron's own rule for the crontabs of users.

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
    """Raise UsageError for a file whose lines name accounts, which would be taken for commands."""
    path = _absolute(file) if file != STDIN else None
    if path and (path in SYSTEM or path.parent in SYSTEM):
        raise UsageError(f"{path} is a system file, with an account in each line: add --system")


def account_name(uid: int) -> str:
    """Return the name of an account, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def doubts_about(user: str) -> str | None:
    """Return what may go wrong with commands of this account, judged by this machine; None if nothing."""
    if _account(user) is None:
        return f"this machine has no account {user!r}; a run fails on an agent without it"
    return homelessness(user)


def homelessness(user: str) -> str | None:
    """Return where commands of this account run if it has no home directory here; None if it has."""
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
    """Without following the last link: cron runs none, and its name is what counts."""
    return Path(file).parent.resolve() / Path(file).name


def _owner_in_spool(path: Path) -> str:
    """Return the account whose crontab this is: cron takes it from the name, and wants it to own the file."""
    try:
        account = pwd.getpwnam(path.name)
    except KeyError:
        raise Refused(
            f"{path} has no owner: there is no account {path.name!r}, and cron does not run it;"
            " say whose it is: --user NAME"
        ) from None
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise Refused(f"{path} is a link, which cron does not run; say whose it is: --user NAME")
    if found.st_uid not in (0, account.pw_uid):
        raise Refused(
            f"{path} belongs to {account_name(found.st_uid)} and not to {path.name}, so cron does not run it;"
            " say whose it is: --user NAME"
        )
    return account.pw_name
