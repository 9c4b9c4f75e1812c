"""Turn a claimed run into a command with its environment, and what the warden saw into a result."""

import os
import pwd
from datetime import UTC, datetime, timedelta

from dcron.config.files import host_name
from dcron.errors import UsageError
from dcron.fields.channel_kinds import OUTPUT
from dcron.model import LAST_RUN, RunState, Task, node_name
from dcron.nodepolicy.command import DEFAULT_PATH, argv_of, shell_of
from dcron.policy.validation import require_command
from dcron.presentation.humanize import signal_name
from dcron.store.alerts.output_mail import OutputMail
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import ClaimedRun
from dcron.warden.client import Job
from dcron.warden.journal import Result

NODE_ID = "DCRON_NODE_ID"
"""The variable by which commands of a dead agent are found."""
LONGEST_PAYLOAD_VARIABLE = 100 * 1024
"""Bytes. The kernel accepts no variable above 128 KiB. A longer payload is passed on stdin only."""
_STOPPED_BY_US = {
    "lease": "stopped because this node could not renew its lease",
    "agent gone": "stopped because its agent died",
    "guard gone": "stopped because the guard of its warden died",
    "stopped": "stopped because its agent was stopped",
}


def job_for(run: ClaimedRun, node_id: str, grace: float) -> Job:
    """Return the command of a run. Its environment is cron's small one, the task's variables, and DCRON_*.

    Raises: UsageError if no node can execute the run.
    """
    spec = run.spec
    if not 1 <= run.id <= LAST_RUN:
        raise UsageError(f"the number of a run is 1 to {LAST_RUN}")
    require_command(spec)
    argv = argv_of(spec)
    login = _login(spec.get("user"))
    env = (
        login
        | {"SHELL": shell_of(spec), "PATH": DEFAULT_PATH}
        | (spec.get("env") or {})
        | _run_variables(run, node_id)
    )
    stdin = run.payload if run.payload is not None else spec.get("stdin")
    return Job(
        run_id=run.id,
        argv=tuple(argv),
        env=env,
        cwd=spec.get("cwd") or env.get("HOME"),
        at_home=not spec.get("cwd") and env.get("HOME") == login["HOME"],
        user=spec.get("user"),
        stdin=stdin.encode() if stdin is not None else None,
        timeout=spec.get("timeout"),
        limits=spec.get("limit") or {},
        grace=grace,
        keeps=run.keeps,
        start_by=run.start_by,
    )


def outcome(result: Result, started_at: datetime, now: datetime, cancelled_by: str | None) -> RunResult:
    """Return how the run ended, for the record.

    The end is the start by the database's clock plus the duration that the warden measured.
    """
    state, reason = _judge(result, cancelled_by)
    if result.message and result.reason != "spawn failed":
        reason = f"{reason}; {result.message}" if reason else result.message
    took = timedelta(seconds=max(0.0, result.finished_at - (result.started_at or result.finished_at)))
    finished_at = max(started_at, min(now, started_at + took))  # the clock may have been set back meanwhile
    never_begun = result.reason == "spawn failed" or (
        result.reason in _STOPPED_BY_US and result.started_at is None
    )
    return RunResult(
        *(result.run_id, state, finished_at, reason, result.exit_code, result.signal),
        timed_out=state is RunState.FAILED and result.reason == "timeout",
        never_begun=never_begun,
    )


def _judge(result: Result, cancelled_by: str | None) -> tuple[RunState, str | None]:
    if result.reason == "cancelled":
        return RunState.CANCELLED, f"cancelled by {cancelled_by}" if cancelled_by else "cancelled"
    if result.reason in _STOPPED_BY_US:
        why = _STOPPED_BY_US[result.reason]
        return RunState.LOST, why if result.started_at else why.replace("stopped", "never begun", 1)
    if result.reason == "timeout":
        return RunState.FAILED, "timeout: it took longer than it may"
    if result.reason == "spawn failed":
        return RunState.FAILED, f"could not be started: {result.message}"
    if result.exit_code == 0:
        return RunState.SUCCEEDED, None
    if result.signal is not None:
        return RunState.FAILED, f"killed by {signal_name(result.signal)}"
    return RunState.FAILED, f"exit {result.exit_code}"


def output_mail(task: Task, result: Result) -> OutputMail | None:
    """Return what to mail of a run's output; None if it printed nothing, or if its task mails nothing."""
    if OUTPUT not in task.notify_on or not result.total_bytes:
        return None
    login = _login(task.user)
    facts = {
        "host": host_name(),
        "user": login.get("LOGNAME", task.user or ""),
        "env": login | {"SHELL": task.shell, "PATH": DEFAULT_PATH},
    }
    return OutputMail(task, facts)


def _login(user: str | None) -> dict[str, str]:
    """Return HOME, LOGNAME and USER of the account; only HOME if it is unknown, which the start reports."""
    try:
        account = pwd.getpwnam(user) if user else pwd.getpwuid(os.getuid())
    except KeyError:
        return {"HOME": "/"}
    return {"HOME": account.pw_dir, "LOGNAME": account.pw_name, "USER": account.pw_name}


def _run_variables(run: ClaimedRun, node_id: str) -> dict[str, str]:
    facts = {
        "DCRON_TASK": run.task.name,
        "DCRON_RUN_ID": str(run.id),
        "DCRON_FENCE": str(run.id),
        "DCRON_SCHEDULED_FOR": run.scheduled_for.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "DCRON_ATTEMPT": str(run.attempt),
        "DCRON_TRIGGER": run.trigger.value,
        "DCRON_NODE": node_name(node_id),
        NODE_ID: node_id,
    }
    if run.flow is not None:
        facts["DCRON_FLOW"] = str(run.flow)
    if run.payload is not None and len(run.payload.encode()) <= LONGEST_PAYLOAD_VARIABLE:
        facts["DCRON_PAYLOAD"] = run.payload
    return facts
