"""What is wrong now: pure rules for runs, tasks, nodes and the database, with their thresholds."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.policy.conditions import nodes, rules
else:
    __getattr__ = submodules(__name__)
