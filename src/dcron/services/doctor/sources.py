"""Examine owned tasks for drift: changes by hand since their source was applied."""

from collections.abc import Iterable, Iterator

from dcron.model import Task
from dcron.policy.ownership import is_drifted
from dcron.services.doctor.finding import Finding, named


def examine(owned: Iterable[Task]) -> Iterator[Finding]:
    """Yield a finding that names the drifted tasks among these, if there are any."""
    drifted = [task.name for task in owned if is_drifted(task)]
    if drifted:
        yield Finding(
            "drifted",
            f"these tasks were changed by hand since their source was applied: {named(drifted)}",
            "files that say something else cannot be applied",
            "write the changes into the files, which `dcron diff` compares, or use `dcron apply --overwrite`",
            drifted,
        )
