"""Deliver what earlier agents of this host left in the spool: results and output not yet recorded."""

import errno
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from dcron.agent.execution import NODE_ID, outcome, output_mail
from dcron.agent.log import log
from dcron.agent.recorder import FLUSH_BYTES, chunks_of
from dcron.config.files import account_name
from dcron.database import Database
from dcron.store.claims import finishing, unheard
from dcron.store.runs import output
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.warden.cgroups import end_cgroups_of
from dcron.warden.descendants import kill_marked
from dcron.warden.journal import JournalError, Result
from dcron.warden.spool import Spool, abandoned

_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)
"""Errors that say nothing about the spool: try again later."""


def deliver_abandoned(database: Database, directory: Path, reported: set[Path]) -> int:
    """Record the results and output that dead agents of this host left behind; return the number of runs.

    Their runs are lost by now, or soon will be; the result that their owner left replaces that state. A
    directory that another account can change is left alone, and reported unless it is in `reported`.

    Raises: DatabaseError.
    """

    def report(path: Path) -> None:
        if path not in reported:
            reported.add(path)
            log.error(
                "what is in %s is not recorded: another account owns it or can write it;"
                " if you trust what is in it, type: chown -R %s %s && chmod -R go-w %s",
                *(path, account_name(), shlex.quote(str(path)), shlex.quote(str(path))),
                event="spool-failed",
            )

    delivered = 0
    for spool in abandoned(directory, report):
        with spool:
            try:
                delivered += _deliver_spool(database, spool)
            except OSError as error:
                if error.errno in _PASSING:
                    continue
                log.error(
                    "the spool of %s cannot be read (%s): it is left as it is",
                    *(spool.node_id, error),
                    event="spool-failed",
                )
                _leave(spool)
    return delivered


def _deliver_spool(database: Database, spool: Spool) -> int:
    # If its warden was killed, too, its commands may still be running.
    if left := end_cgroups_of(spool.node_id) + kill_marked(f"{NODE_ID}={spool.node_id}"):
        log.warning(
            "killed %d processes that %s had left behind", left, spool.node_id, event="processes-killed"
        )
    delivered = 0
    for run_id in spool.runs():
        try:
            delivered += _deliver(database, spool, run_id)
        except JournalError as error:
            aside = spool.set_aside(run_id)
            log.error(
                "run %d: its journal is set aside as %s: %s",
                *(run_id, aside, error),
                event="journal-unreadable",
                run=run_id,
            )
        else:
            spool.forget(run_id)
    _settle(database, spool)
    spool.remove()
    return delivered


def _settle(database: Database, spool: Spool) -> None:
    """Declare lost what the node was running and left no result of: its commands are certainly over."""
    with database.write() as connection:
        lost = unheard.settle(connection, database, database.now(connection), spool.node_id)
    for run_id in lost:
        log.warning(
            "run %d of %s is lost: how it ended is unknown",
            *(run_id, spool.node_id),
            event="run-lost",
            run=run_id,
        )


def _leave(spool: Spool) -> None:
    with suppress(OSError):
        spool.set_all_aside()


def _deliver(database: Database, spool: Spool, run_id: int) -> bool:
    with database.read() as connection:  # a restored backup may not know the run
        run = runs.by_id(connection, run_id)
    if run is None or run.owner != spool.node_id:
        log.warning(
            "run %d: dropped what %s left behind, this database has no such run of it",
            *(run_id, spool.node_id),
            event="run-dropped",
            run=run_id,
        )
        return False
    result = _deliver_output(database, spool, run_id)
    recorded = result is not None and _deliver_result(database, spool.node_id, run.task_id, result)
    if recorded:
        log.warning(
            "run %d: its end, left behind by %s, is now recorded",
            *(run_id, spool.node_id),
            event="run-delivered",
            run=run_id,
            task=run.task,
        )
    return recorded


def _deliver_output(database: Database, spool: Spool, run_id: int) -> Result | None:
    with database.read() as connection:
        known = output.size(connection, run_id)
    with spool.journal(run_id, known) as journal:
        while frames := journal.read(FLUSH_BYTES):
            with database.write() as connection:
                output.append(connection, database, chunks_of(run_id, frames))
        result = journal.result
    if result is not None and result.node_id != spool.node_id:
        raise JournalError(f"its result is that of node {result.node_id}")
    return result


def _deliver_result(database: Database, node_id: str, task_id: int, result: Result) -> bool:
    with database.write() as connection:
        now = database.now(connection)
        started = runs.started_at(connection, [result.run_id]).get(result.run_id)
        finished = datetime.fromtimestamp(result.finished_at, UTC)
        ended = outcome(result, started or finished, now, cancelled_by=None)
        for task in tasks.by_ids(connection, {task_id}):
            ended = ended._replace(mail=output_mail(task, result))
        return bool(finishing.finish(connection, database, node_id, [ended], now))
