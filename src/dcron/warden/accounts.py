"""The account that a command runs as.

The agent looks up names, not the warden: a lookup may wait for a directory server, and the warden must
never wait while it holds a deadline.
"""

import os
import pwd
from typing import NamedTuple

from dcron.warden.protocol import Identity


class AccountError(Exception):
    """The user does not exist, or the agent may not become that user."""


class Account(NamedTuple):
    """The account an agent runs as."""

    name: str
    """The account's number if it has no name."""
    uid: int
    any_account: bool
    """Whether it may run commands as other accounts, too."""

    @property
    def accounts(self) -> tuple[str, ...] | None:
        """The accounts it runs commands as: its own by name and by number; None for all."""
        return None if self.any_account else (self.name, str(self.uid))


def own_account() -> Account:
    """Return the account of this process, and whether `identity_of` lets it run commands as others."""
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container with a uid of its own
        name = str(uid)
    return Account(name, uid, any_account=uid == 0)


def identity_of(user: str | None) -> Identity | None:
    """Return uid, gid and all groups of the user, or None when the command runs as we do.

    Nor is there a change of identity when nothing would change: a start without one is faster.
    """
    if user is None:
        return None
    account = _account(user)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    identity = Identity(account.pw_uid, account.pw_gid, tuple(sorted(groups)))
    if os.geteuid() != 0:
        if account.pw_uid == os.geteuid():
            return None
        raise AccountError(f"only an agent that runs as root can start commands as {user!r}")
    return None if identity == _own_identity() else identity


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        pass
    try:
        return pwd.getpwuid(int(user))
    except (KeyError, ValueError, OverflowError):
        raise AccountError(f"there is no user {user!r}") from None


def _own_identity() -> Identity:
    return Identity(os.getuid(), os.getgid(), tuple(sorted({*os.getgroups(), os.getgid()})))
