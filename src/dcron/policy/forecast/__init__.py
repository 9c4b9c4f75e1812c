"""What will start when, and what will wait: the coming hours, simulated."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.policy.forecast import comparison, relief, start_times, summary
else:
    __getattr__ = submodules(__name__)
