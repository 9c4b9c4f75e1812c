"""Changes of tasks as differences, for `edit` and `import`."""

import sys
from collections.abc import Sequence
from datetime import datetime

from dcron import presentation, services
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import print_facts

SHOWN = 50
"""Changes that are shown; further ones are counted."""
VERBS = {"added": "add", "changed": "change", "renamed": "rename", "removed": "remove"}
"""What a change does, by its kind."""


def show(
    changes: "Sequence[services.changes.changeset.TaskChange]", now: datetime, *, would: bool = False
) -> None:
    """Print changes of tasks as differences, with the runs that move: that were made, or that `would` be."""
    for change in changes[:SHOWN]:
        _show_change(change, now, f"would {VERBS[change.kind]}" if would else change.kind)
    if rest := changes[SHOWN:]:
        removed = sum(change.kind == "removed" for change in rest)
        console.data(f"… and {len(rest):,} more" + (f", {removed:,} of them removed" if removed else ""))
    sys.stdout.flush()


def _show_change(change: "services.changes.changeset.TaskChange", now: datetime, done: str) -> None:
    lines = presentation.differences.shortened(change.difference())
    old = f"{change.before.name} -> " if change.before and change.kind == "renamed" else ""
    shown = [AlarmCell(line) if line.startswith("-") else line for line in lines]
    moved = presentation.next_runs.moved_runs(change.before, change.after, now) if change.after else ()
    print_facts([(done, [old + change.name, *shown]), *moved])
    console.data()
    if change.after and presentation.next_runs.times_differ(change.before, change.after):
        sys.stdout.flush()
        for code, message in presentation.next_runs.warnings(change.after, now):
            console.complain(f"warning: {change.name}: {message} [{code}]")
