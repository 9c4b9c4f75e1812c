"""Whom a command runs as.

Names are looked up by the agent, not by the warden: a lookup may wait for a directory server, and the warden
must never wait while it holds a deadline.
"""

import os
import pwd

from dcron.warden.protocol import Identity


class AccountError(Exception):
    """The user does not exist, or we may not become that user."""


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
