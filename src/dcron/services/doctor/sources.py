"""Tasks that are not what their sources say any more."""

from collections.abc import Iterable, Iterator

from dcron.model import Task
from dcron.policy.ownership import is_drifted
from dcron.services.doctor.finding import Finding, named


def examine(owned: Iterable[Task]) -> Iterator[Finding]:
    """Yield the tasks among these that were changed by hand since their source was applied."""
    drifted = [task.name for task in owned if is_drifted(task)]
    if drifted:
        yield Finding(
            "drifted",
            f"these tasks were changed by hand since their source was applied: {named(drifted)}",
            "files that say something else cannot be applied",
            "write the changes into the files, which `dcron diff` compares, or use `dcron apply --overwrite`",
            drifted,
        )
