"""Decide which variables of a task look like secrets."""

import re
from collections.abc import Mapping

_NAME = re.compile(
    r"(?:^|_)(?:PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|SECRET|TOKEN|CREDENTIALS?|APIKEY"
    r"|(?:API|ACCESS|AUTH|PRIVATE|SECRET|SIGNING|ENCRYPTION)_?KEY)(?:_\d+)?$|PGPASSWORD$|MYSQL_PWD$",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:[^/@\s]+@", re.IGNORECASE)
_NAMED_ELSEWHERE = re.compile(r"(?:[@/~]|\$).*|", re.DOTALL)
"""A file or another variable, or nothing."""


def secret_names(env: Mapping[str, str]) -> list[str]:
    """Return the variables that have a password or a key: by their names, or a URL with a password."""
    return [
        name
        for name, value in env.items()
        if isinstance(value, str)
        and (
            _WITH_PASSWORD.search(value)
            or (_NAME.search(name) and name != "PWD" and not _NAMED_ELSEWHERE.fullmatch(value))
        )
    ]
