"""Read the address that `--monitor` and `dcron monitor` listen on."""

import re
from typing import NamedTuple

from dcron.errors import UsageError

LOOPBACK = "127.0.0.1"
_FORM = re.compile(r"(?:(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%]+\]):)?(?P<port>[0-9]{1,5})")
_LAST_PORT = 65_535


class ListenAddress(NamedTuple):
    """A host and a port. Port 0 lets the system choose a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as people type it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> ListenAddress:
    """Parse `[HOST:]PORT`; without a host it is the loopback address. Raises UsageError."""
    found = _FORM.fullmatch(text.strip())
    if not found or int(found["port"]) > _LAST_PORT:
        raise UsageError(f"{text!r} is no address to listen on: give PORT or HOST:PORT, such as 9434")
    return ListenAddress((found["host"] or LOOPBACK).strip("[]"), int(found["port"]))
