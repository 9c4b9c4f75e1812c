"""Describe freezes. Shared by the CLI and the TUI."""

from datetime import datetime, tzinfo

from dcron.model import Freeze
from dcron.presentation import humanize


def sentence(freeze: Freeze, here: tzinfo, now: datetime) -> str:
    """Return `frozen by ann@desk until 06:00: database upgrade`."""
    by = f" by {freeze.created_by}" if freeze.created_by else ""
    begins = f" from {humanize.clock(freeze.from_at, here, now)}" if freeze.from_at > now else ""
    until = f" until {humanize.clock(freeze.until_at, here, now)}" if freeze.until_at else ""
    reason = f": {freeze.reason}" if freeze.reason else ""
    return f"frozen{by}{begins}{until}{reason}"
