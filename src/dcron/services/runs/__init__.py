"""Runs as people start, list and end them."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.services.runs import dead_letters, trials, triggers
else:
    __getattr__ = submodules(__name__)
