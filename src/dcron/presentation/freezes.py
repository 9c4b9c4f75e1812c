"""Describe freezes. Shared by the CLI and the TUI."""

from datetime import datetime, tzinfo

from dcron.model import Freeze
from dcron.policy.starting.freezes import reason_of
from dcron.presentation import humanize


def sentence(freeze: Freeze, here: tzinfo, now: datetime) -> str:
    """Return `frozen by ann@desk until 06:00: database upgrade`."""
    by = f" by {freeze.created_by}" if freeze.created_by else ""
    begins = f" from {humanize.clock(freeze.from_at, here, now)}" if freeze.from_at > now else ""
    until = f" until {humanize.clock(freeze.until_at, here, now)}" if freeze.until_at else ""
    reason = f": {freeze.reason}" if freeze.reason else ""
    return f"frozen{by}{begins}{until}{reason}"


def held_back(freeze: Freeze, due: datetime, now: datetime) -> str:
    """Return `its run was due 4m ago, and the crontab is frozen by ann@desk: upgrade, until ...`."""
    until = f", until {humanize.full(freeze.until_at)}" if freeze.until_at else ""
    return f"its run was due {humanize.ago(due, now)}, and the crontab is {reason_of(freeze)}{until}"
