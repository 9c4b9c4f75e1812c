"""The page `/cluster`: the figures of the whole crontab, from the database.

However many clients ask, the database is read once in `READ_INTERVAL` seconds at most, with a connection of
its own. While it is away, the page shows the last answer, and how old it is.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder

from dcron import migrations
from dcron.database import Database
from dcron.errors import DatabaseError, unexpected
from dcron.monitoring.cluster_metrics import freshness, metrics_of
from dcron.monitoring.server import Page
from dcron.store.statistics import figures as cluster_figures
from dcron.store.statistics.figures import ClusterFigures

log = logging.getLogger("dcron.monitor")

READ_INTERVAL = 15.0
"""Seconds between two readings of the database, however many clients ask."""
READ_TIMEOUT = 5.0
"""Seconds that the database has for its answer."""
_WAIT = READ_TIMEOUT + 1
"""Seconds that a client waits for a reading under way; then it gets the last answer."""
_ANSWER_OF_PATIENCE = 4.5
"""How many times its patience a `Database` waits for an answer of a server that may be frozen."""
_END = b"# EOF\n"


@dataclass
class _Answer:
    figures: ClusterFigures
    read_at: float
    seconds: float
    encoded: dict[str, bytes] = field(default_factory=dict)
    """The figures as text, by content type."""


@dataclass
class _Metrics:
    """What an encoder of prometheus_client takes."""

    metrics: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.metrics


class ClusterPage:
    """Serves the figures of one crontab."""

    def __init__(self, database: Database) -> None:
        """Read the same database as this one, with a connection of its own."""
        self._database = database.sibling(patience=READ_TIMEOUT / _ANSWER_OF_PATIENCE)
        self._changed = threading.Condition()
        self._is_reading = False
        self._is_checked = False
        self._failed = False
        self._began_at = -math.inf
        self._since = time.monotonic()
        self._answer: _Answer | None = None
        self._last_success: dict[int, cluster_figures.TaskFigures] = {}

    def page(self, accept: str) -> Page:
        """Return the page in the form that the client accepts."""
        encode, content_type = choose_encoder(accept)
        with self._changed:
            self._refresh()
            answer, failed = self._answer, self._failed or self._answer is None
            if answer is None:
                figures, age, seconds = b"", time.monotonic() - self._since, None
            else:
                if content_type not in answer.encoded:
                    text = encode(_Metrics(metrics_of(answer.figures)))
                    answer.encoded[content_type] = text.removesuffix(_END)
                figures = answer.encoded[content_type]
                age, seconds = time.monotonic() - answer.read_at, answer.seconds
        return Page(
            figures + encode(_Metrics(freshness(age, seconds, failed=failed))), content_type=content_type
        )

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _refresh(self) -> None:
        """Begin to read if the last reading is old; wait for the one under way. The caller has the lock."""
        if not self._is_reading and time.monotonic() - self._began_at >= READ_INTERVAL:
            self._is_reading = True
            self._began_at = time.monotonic()
            threading.Thread(target=self._read, name="dcron-monitor-read", daemon=True).start()
        self._changed.wait_for(lambda: not self._is_reading, _WAIT)

    def _read(self) -> None:
        answer = None
        error = ""
        try:
            answer = self._new_answer()
        except DatabaseError as problem:
            error = str(problem)
        except Exception as problem:  # such as a value that was written by hand
            error = unexpected(problem)
        if error:
            self._database.close()  # the next reading opens the database that is there then
            self._is_checked = False
        with self._changed:
            if error and not self._failed:
                shown = "shows its last answer" if self._answer else "has no figures yet"
                log.warning("monitor: /cluster %s: %s", shown, error, extra={"event": "cluster-away"})
            elif self._failed and not error:
                log.warning("monitor: /cluster is current again", extra={"event": "cluster-back"})
            self._failed = bool(error)
            self._answer = answer or self._answer
            self._is_reading = False
            self._changed.notify_all()

    def _new_answer(self) -> _Answer:
        began_at = time.monotonic()
        if not self._is_checked:
            migrations.require_made(self._database)
            self._is_checked = True
        with (
            self._database.snapshot() as connection,
            self._database.time_limit(connection, READ_TIMEOUT),
        ):
            figures = cluster_figures.read(connection, self._database)
        self._remember(figures)
        return _Answer(figures, began_at, time.monotonic() - began_at)

    def _remember(self, figures: ClusterFigures) -> None:
        """Keep the last success of a task after it is too many runs ago for a reading to find it."""
        for task in figures.of_tasks:
            before = self._last_success.get(task.id)
            if task.last_success is None and before is not None:
                task.last_success = before.last_success
        self._last_success = {task.id: task for task in figures.of_tasks if task.last_success}
