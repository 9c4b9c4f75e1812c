"""Why a task did, did not, or will not run: read from the record and from how things stand."""

from dcron.services.why.causes import Cause
from dcron.services.why.service import Why
from dcron.services.why.stretch import Span

__all__ = ["Cause", "Span", "Why"]
