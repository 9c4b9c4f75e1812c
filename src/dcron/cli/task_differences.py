"""Changes of tasks as differences, for `edit` and `import`."""

import sys
from typing import TYPE_CHECKING

from dcron.cli import console

if TYPE_CHECKING:
    from datetime import datetime

    from dcron.services.text_edits import Changes, TaskChange


SHOWN = 50
"""Changes that are shown; further ones are counted."""


LONGEST = 1_000
"""Characters of a line in a difference."""


def show(changes: "Changes", now: "datetime") -> None:
    """Print changes of tasks as differences, with the runs that move."""
    for change in changes.changes[:SHOWN]:
        _show_change(change, now)
    if rest := changes.changes[SHOWN:]:
        removed = sum(change.kind == "removed" for change in rest)
        console.data(f"… and {len(rest):,} more" + (f", {removed:,} of them removed" if removed else ""))
    sys.stdout.flush()


def _show_change(change: "TaskChange", now: "datetime") -> None:
    from dcron.cli.colours import AlarmCell
    from dcron.cli.tables import print_facts
    from dcron.presentation import next_runs

    lines = [line[:LONGEST] + ("…" if len(line) > LONGEST else "") for line in change.difference()]
    old = f"{change.before.name} -> " if change.before and change.kind == "renamed" else ""
    shown = [AlarmCell(line) if line.startswith("-") else line for line in lines]
    moved = next_runs.moved_runs(change.before, change.after, now) if change.after else ()
    print_facts([(change.kind, [old + change.name, *shown]), *moved])
    console.data()
    if change.after and next_runs.times_differ(change.before, change.after):
        sys.stdout.flush()
        for code, message in next_runs.warnings(change.after, now):
            console.complain(f"warning: {change.name}: {message} [{code}]")
