"""The services through which the CLI and the TUI read and change a crontab, one for each subject."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.services import (
        additions,
        alerts,
        archives,
        bulk_edit,
        calendars,
        changes,
        channels,
        crontab,
        database_info,
        doctor,
        fleet,
        forecast,
        freezes,
        history,
        node_rules,
        report,
        retention,
        runs,
        scrubbing,
        settings,
        statistics,
        tasks,
        undo,
        why,
    )
else:
    __getattr__ = submodules(__name__)
