"""Decide what should happen, from values alone: no database, no clock. Agents and services both ask here."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.policy import (
        alert_facts,
        channels,
        conditions,
        forecast,
        history,
        ownership,
        secrets,
        selectors,
        starting,
        statistics,
        validation,
    )
else:
    __getattr__ = submodules(__name__)
