"""Why a task did, did not, or will not run: read from the record and from how things stand."""

from dcron.why.causes import Cause
from dcron.why.service import Why
from dcron.why.stretch import Span

__all__ = ["Cause", "Span", "Why"]
