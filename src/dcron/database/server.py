"""What a Postgres server reports of itself. This module loads no driver."""

from dataclasses import dataclass
from typing import NamedTuple

SCHEMA = "dcron"
"""The schema in which new tables are created. Only dcron's role may create objects there."""


class Replication(NamedTuple):
    """How a Postgres server replicates commits."""

    standby_names: str
    """Empty if no commit waits for a standby."""
    commit: str
    """The server's `synchronous_commit`. dcron's writing transactions set it to `on`."""

    @property
    def is_synchronous(self) -> bool:
        """Whether a commit of dcron is on a standby before it is acknowledged."""
        return bool(self.standby_names)


@dataclass(frozen=True)
class Protection:
    """How a connection to Postgres is protected."""

    encryption: str | None
    """The TLS version; None if the connection is not encrypted."""
    sslmode: str
    """How the server's certificate is checked; `prefer` checks nothing."""
    require_auth: str | None
    """The accepted methods of authentication; None for any."""
    is_local: bool
    """Whether the server is on this machine."""
    schema: str | None
    """The schema in force; None if it is missing."""
    distrusted: str | None
    """A role that may create in the schema, or has created, though it is not trusted; and what it does."""

    @property
    def others_may_create(self) -> bool:
        """Whether a role that is not trusted can run code with the rights of the schema's users."""
        return self.distrusted is not None

    @property
    def is_verified(self) -> bool:
        """Whether the server has proved its identity."""
        return self.encryption is not None and self.sslmode == "verify-full"
