"""List and acknowledge alerts: what is wrong, and who knows of it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection

from dcron.errors import NotFound, Refused
from dcron.model import LAST_RUN, Alert
from dcron.policy.alert_facts import AlertFacts
from dcron.policy.selectors import Selector
from dcron.policy.validation import require_text
from dcron.presentation import alerts as words
from dcron.schedule.effort import repeatable
from dcron.services import task_names
from dcron.services.service import Service
from dcron.store import audit_log
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import listing as alert_list

OTHER_SUBJECTS = ("node:", "job:", "channel:", "cluster")
"""How the subjects of alerts begin that are about no task."""


class Alerts(Service):
    """The alerts of a crontab."""

    def page(
        self,
        *,
        closed: bool = False,
        before_id: int | None = None,
        limit: int = 100,
        selector: Selector | None = None,
    ) -> list[AlertFacts]:
        """Return the open alerts, with `closed` also those that are closed, the newest first.

        With a selector, only those of the tasks that it chooses.
        """
        with self.database.read() as connection:
            now = self.database.now(connection)
            found = alert_list.page(
                connection, closed=closed, before_id=before_id, limit=limit, selector=selector
            )
            return alert_facts.read(connection, found, now)

    def count_unacknowledged(self, selector: Selector | None = None) -> int:
        """Return how many open alerts are unacknowledged; with a selector, of the tasks that it chooses."""
        with self.database.read() as connection:
            return alert_list.count_unacknowledged(connection, self.database.now(connection), selector)

    def of_task(self, task_id: int) -> list[AlertFacts]:
        """Return the open alerts of a task, the oldest first."""
        with self.database.read() as connection:
            found = alert_list.of_tasks(connection, [task_id]).get(task_id, [])
            return alert_facts.read(connection, found, self.database.now(connection))

    def find(self, which: str) -> list[Alert]:
        """Return the open alerts of a task or a subject, or the alert of this number.

        Raises NotFound if there is no such task or alert, and Refused where nothing is open.
        """
        with self.database.read() as connection:
            return self._find(connection, which)

    @repeatable
    def acknowledge(
        self, found: Sequence[Alert], note: str | None = None, duration: timedelta | None = None
    ) -> list[Alert]:
        """Acknowledge these alerts and return those that are still open: they cause no more reminders.

        With a duration, they are acknowledged until it is over. Raises UsageError for a bad note.
        """
        if note is not None:
            require_text("message", note)
        with self.database.write() as connection:
            now = self.database.now(connection)
            still_open = alert_list.lock(connection, [each.id for each in found])
            until = now + duration if duration is not None else None
            if still_open:
                alert_list.acknowledge(connection, still_open, now, self.actor, note, until)
            author = replace(self.author, note=note)
            for alert in still_open:
                detail = {"alert": alert.id, "kind": alert.kind, "subject": alert.subject, "note": note}
                about = alert.task_id, alert.task, detail
                audit_log.record_run(connection, now, author, "ack", *about, kind="alert")
            return alert_list.by_ids(connection, [each.id for each in still_open])

    def _find(self, connection: Connection, which: str) -> list[Alert]:
        if which.isascii() and which.isdigit():
            alert = alert_list.by_id(connection, int(which)) if int(which) <= LAST_RUN else None
            if alert is None:
                raise NotFound(f"there is no alert {which}; `dcron alerts` shows the numbers")
            if alert.closed_at:
                raise Refused(f"alert {which} is closed ({words.name(alert)}: {words.word(alert.kind)})")
            return [alert]
        if which.startswith(OTHER_SUBJECTS):
            found = alert_list.open_of_subject(connection, which)
        else:
            task_id = task_names.exact(connection, which).id
            found = alert_list.of_tasks(connection, [task_id]).get(task_id, [])
        if not found:
            raise Refused(f"{which} has no open alerts")
        return found
