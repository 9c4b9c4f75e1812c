"""The figures of a crontab as metrics for Prometheus."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from prometheus_client import Metric

from dcron.monitoring.families import gauge, gauges_by, ones
from dcron.settings.registry import metric_label
from dcron.store.statistics.figures import (
    ChannelBacklog,
    ClusterFigures,
    MaintenanceFigures,
    TaskFigures,
)

_JOB = "maintenance_job"
"""Not `job`: Prometheus gives that label to the targets that it scrapes."""


def metrics_of(figures: ClusterFigures) -> Iterator[Metric]:
    """Yield all metrics of the crontab."""
    yield gauges_by("dcron_tasks", "Tasks, by what the crontab says of them.", "state", figures.tasks)
    yield gauge(
        "dcron_frozen",
        "Whether the crontab is frozen: then only manual runs start.",
        figures.frozen is not None,
    )
    yield gauge(
        "dcron_tasks_failed", "Tasks whose last finished run failed or was lost.", figures.tasks_failed
    )
    yield gauge(
        "dcron_tasks_late",
        "Tasks with a run that has been due for more than 15 s, frozen time excluded, up to 1,000.",
        figures.tasks_late,
    )
    yield gauge(
        "dcron_tasks_unserved",
        "Tasks with a waiting run that no living node can take.",
        figures.tasks_unserved,
    )
    yield gauges_by("dcron_runs", "Runs that have not ended.", "state", figures.runs)
    yield gauge(
        "dcron_due_oldest_seconds",
        "For how long the first waiting run has been due, frozen time excluded; 0 if none may start.",
        _age(figures, figures.oldest_due),
    )
    yield gauge(
        "dcron_oldest_run_seconds",
        "For how long the oldest active run has been running; 0 if none is.",
        _age(figures, figures.oldest_start),
    )
    yield gauge("dcron_dead_letters", "Failed and lost runs without further attempts.", figures.dead_letters)
    yield gauges_by("dcron_nodes", "Nodes; those that ended, within a day.", "state", figures.nodes)
    yield gauge("dcron_slots", "Slots of all living nodes.", figures.slots)
    yield gauge("dcron_slots_used", "Active runs on all living nodes.", figures.slots_used)
    running = {queue.name: queue.alive for queue in figures.queues}
    limits = {queue.name: queue.max_running for queue in figures.queues if queue.max_running is not None}
    yield gauges_by("dcron_queue_running", "Active runs of a queue.", "queue", running)
    yield gauges_by("dcron_queue_limit", "Most active runs of a queue.", "queue", limits)
    yield gauges_by(
        "dcron_database_bytes",
        "Size of a table with its indexes; of a SQLite file, its whole size as *.",
        "table",
        figures.database_bytes,
    )
    if figures.oldest_transaction is not None:
        yield gauge(
            "dcron_oldest_transaction_seconds",
            "For how long the oldest transaction of the database has been open; 0 if none is.",
            figures.oldest_transaction,
        )
    yield from _of_maintenance(figures.maintenance)
    yield from _of_channels(figures)
    yield from _of_tasks(figures)


def freshness(age: float, seconds: float | None, *, failed: bool) -> Iterator[Metric]:
    """Yield how old the figures are, how long their reading took, and whether the last reading succeeded."""
    yield gauge("dcron_cluster_up", "Whether the last reading of the database succeeded.", not failed)
    yield gauge("dcron_cluster_age_seconds", "Age of the figures on this page.", age)
    if seconds is not None:
        yield gauge("dcron_cluster_read_seconds", "How long the reading of the figures took.", seconds)


def _of_maintenance(jobs: Sequence[MaintenanceFigures]) -> Iterator[Metric]:
    ran = {job.name: job.ran_at.timestamp() for job in jobs if job.ran_at}
    seconds = {job.name: job.seconds for job in jobs if job.seconds is not None}
    yield gauges_by(
        "dcron_maintenance_ran_timestamp_seconds", "When a job's last good round ended.", _JOB, ran
    )
    yield gauges_by("dcron_maintenance_duration_seconds", "How long that round took.", _JOB, seconds)
    due = {job.name: job.due_at.timestamp() for job in jobs}
    yield gauges_by("dcron_maintenance_due_timestamp_seconds", "When a job's next round is due.", _JOB, due)
    failed = {job.name: float(job.failed) for job in jobs}
    yield gauges_by("dcron_maintenance_failed", "Whether a job's latest round failed.", _JOB, failed)


def _of_channels(figures: ClusterFigures) -> Iterator[Metric]:
    columns: list[tuple[str, str, Callable[[ChannelBacklog], float]]] = [
        ("pending", "Notifications that wait for a channel.", lambda each: each.pending),
        (
            "oldest_pending_seconds",
            "For how long the first of them has been waiting; 0 if none is.",
            lambda each: _age(figures, each.oldest),
        ),
        ("failing", "Those of them whose last try failed.", lambda each: each.failing),
        (
            "undeliverable",
            "Whether a channel was given up, and has sent nothing since.",
            lambda each: each.is_undeliverable,
        ),
    ]
    for name, help_text, value_of in columns:
        values = {channel: value_of(each) for channel, each in figures.channels.items()}
        yield gauges_by(f"dcron_notifications_{name}", help_text, "channel", values)


def _of_tasks(figures: ClusterFigures) -> Iterator[Metric]:
    columns: list[tuple[str, str, Callable[[TaskFigures], float | None]]] = [
        ("last_run_timestamp_seconds", "When its latest run started.", lambda task: _stamp(task.last_run)),
        (
            "last_success_timestamp_seconds",
            "When its latest success ended.",
            lambda task: _stamp(task.last_success),
        ),
        (
            "next_run_timestamp_seconds",
            "When its next run is due; none while it is paused.",
            lambda task: _stamp(task.next_run),
        ),
        (
            "last_duration_seconds",
            "How long its latest run took that succeeded, failed or was lost.",
            lambda task: task.last_duration,
        ),
        (
            "failures",
            "How often it has failed since its last success, up to 100.",
            lambda task: task.failures,
        ),
    ]
    for name, help_text, value_of in columns:
        values = {task.name: value for task in figures.of_tasks if (value := value_of(task)) is not None}
        yield gauges_by(f"dcron_task_{name}", help_text, "task", values)
    if figures.label_keys:
        yield _task_info(figures)
    yield gauge("dcron_task_series_left_out", "Tasks without figures of their own.", figures.tasks_left_out)


def _task_info(figures: ClusterFigures) -> Metric:
    """Return a series of value 1 for each task with its labels; a label that it lacks is empty."""
    names = ["task", *map(metric_label, figures.label_keys)]
    values = (
        [task.name, *(task.labels.get(key, "") for key in figures.label_keys)] for task in figures.of_tasks
    )
    return ones("dcron_task_info", "The labels of a task that monitor.labels names.", names, values)


def _stamp(at: datetime | None) -> float | None:
    return at.timestamp() if at else None


def _age(figures: ClusterFigures, since: datetime | None) -> float:
    return max(0.0, (figures.now - since).total_seconds()) if since else 0.0
