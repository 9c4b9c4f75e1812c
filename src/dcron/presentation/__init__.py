"""Format values for people. Shared by the CLI and the TUI."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.presentation import (
        alert_message,
        alerts,
        blame,
        cron_mail,
        differences,
        doctor,
        freezes,
        frozen_starts,
        next_runs,
        owned_tasks,
        policies,
        statistics,
    )
else:
    __getattr__ = submodules(__name__)
