"""Why a task did, did not, or will not run: from the record, and from the state of the crontab."""

from dcron.presentation.why import Cause
from dcron.services.why.answers import Span
from dcron.services.why.service import Why

__all__ = ["Cause", "Span", "Why"]
