"""Look for what needs an operator's attention: `dcron doctor`."""

from dcron.services.doctor.database import unsafe_connection
from dcron.services.doctor.service import Doctor

__all__ = ["Doctor", "unsafe_connection"]
