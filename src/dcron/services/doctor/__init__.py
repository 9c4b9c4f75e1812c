"""Look for what needs an operator's attention: `dcron doctor`."""

from dcron.services.doctor.database_server import unsafe_connection
from dcron.services.doctor.finding import Finding
from dcron.services.doctor.service import Doctor

__all__ = ["Doctor", "Finding", "unsafe_connection"]
