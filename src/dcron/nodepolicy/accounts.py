"""Which accounts a node accepts, decided by texts alone: for lanes, and for nodes on other machines.

The judge of a node compares numbers of accounts instead, so nothing depends on how one is written.
"""

from collections.abc import Collection

ROOT = "root"
ALL_BUT_ROOT = "*"
ACCEPT_ALL = 'accounts = ["*", "root"]'
"""The line of a policy that accepts tasks of every account."""
_ROOT_NUMBER = "0"


def canonical(user: str) -> str:
    """Return the account as it is compared: a number without zeros before it, and `root` for number 0."""
    try:
        number = str(int(user))
    except ValueError:
        return user
    return ROOT if number == _ROOT_NUMBER else number


def accepts(accounts: Collection[str] | None, user: str | None, own: str | None) -> bool:
    """Return whether a node that accepts these accounts runs commands as `user`.

    `own` is the account of its agent, for a command that names none. Without `accounts` all are accepted.
    """
    named = own if user is None else user
    if accounts is None or named is None:
        return True
    account = canonical(named)
    return account in accounts or (ALL_BUT_ROOT in accounts and account != ROOT)
