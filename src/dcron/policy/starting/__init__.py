"""What the claim and the forecast ask: which occurrence starts, waits or is skipped."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.policy.starting import dependencies, disconnect, lanes, occurrences
else:
    __getattr__ = submodules(__name__)
