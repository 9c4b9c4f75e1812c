"""What `add`, `set` and `preview` say of a schedule on stderr: doubts, and what the clocks do to it."""

from datetime import datetime

from dcron.cli import printing
from dcron.model import Definition
from dcron.schedule import Rules
from dcron.telling import forecast


def print_warnings(line: Definition, now: datetime, rules: Rules | None = None) -> None:
    """Say what is probably not meant."""
    for code, message in forecast.warnings(line, now, rules):
        printing.complain(f"warning: {message} [{code}]")


def print_clock_changes(line: Definition, after: datetime, rules: Rules | None = None) -> None:
    """Say what the clock changes that come next do to the schedule, also where they lie far off."""
    for change in forecast.clock_changes(line, after, rules):
        printing.note(f"clock change {change.local:%a %Y-%m-%d}: {change.text}")
