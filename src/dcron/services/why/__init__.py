"""Why a task did, did not, or will not run: from the record, and from the state of the crontab."""

from dcron.services.why.run_causes import Cause, Span
from dcron.services.why.service import Why

__all__ = ["Cause", "Span", "Why"]
