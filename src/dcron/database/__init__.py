"""The one place that knows which database it is: connections, transactions, clock, locks, errors, wake-up."""

from dcron.database.engine import Database
from dcron.database.failures import is_transient

__all__ = ["Database", "is_transient"]
