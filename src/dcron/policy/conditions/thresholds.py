"""From when on something is wrong. Each threshold is declared here, once."""

from datetime import timedelta

START_WITHIN = 600.0
"""Seconds within which a due run starts, where nothing else is said."""
PACED_AFTER = timedelta(seconds=60)
"""How late runs are that agents start at a measured pace."""
CLOCK_OFFSET = 2.0
"""Seconds by which a node's clock may differ from the database's. NTP keeps a clock to some milliseconds."""
LEASE_TOLERANCE = timedelta(seconds=5)
"""How much later than by its own length a lease may end."""
UNSERVED_AFTER = timedelta(minutes=5)
"""How long no living node serves a run before it counts: agents are replaced one after the other."""
BEHIND = timedelta(hours=1)
"""How long a maintenance job may be due before an alert says so."""
LONG_BEHIND = timedelta(days=1)
"""How long it may be due before the doctor says so: history stays, but nothing is wrong yet."""
WATCH_LATE = timedelta(seconds=90)
"""How long the job that opens alerts may be due. So two minutes pass at most until that is reported."""
LOST_FOR = timedelta(days=7)
"""How long a lost node counts as lost, if no node of its name comes back."""
LEAST_FREE = 64 * 1024**2
"""Bytes beside a SQLite file: enough for a rollback journal."""
OLD_TRANSACTION = 600.0
"""Seconds for which a transaction may be open."""
