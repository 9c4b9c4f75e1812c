"""The conditions of partial indexes.

SQLite uses such an index only if a query contains its condition word for word: queries have to use these.
"""

ALIVE = "state IN ('claimed', 'running')"
NEXT = "trigger = 'schedule' AND state IN ('waiting', 'claimed')"
UNSUCCESSFUL = "state IN ('failed', 'lost', 'skipped', 'cancelled')"
REBOOT = "schedule LIKE '%@reboot%'"
ONCE = "once"
# In these words because Postgres expects few rows of an equality, and nearly all of
# `planned_version <> version`.
UNPLANNED = "CASE WHEN planned_version <> version THEN 1 ELSE 0 END = 1"
FINAL = "state IN ('succeeded', 'failed', 'lost', 'skipped', 'cancelled')"
WAITING = "state = 'waiting'"
DUE = f"{WAITING} AND blocked IS NULL"
BLOCKED = f"{WAITING} AND blocked IS NOT NULL"
EXPIRING = f"{WAITING} AND expires_at IS NOT NULL"
FINISHED = "finished_at IS NOT NULL"
DEAD = "dead_at IS NOT NULL"
UNHANDLED = "handled_at IS NULL"
LIMITED = "max_running IS NOT NULL"
OPEN = "closed_at IS NULL"
UNSENT = "sent_at IS NULL AND gave_up_at IS NULL"
NO_TRIAL = "task_id > 0"
NOT_THAWED = "thawed_at IS NULL"
EXPECTING = "expect <> '{}'"
UNHEARD = "state = 'running' AND unheard_since IS NOT NULL"
INCIDENT = "action IN ('epoch', 'clock')"
