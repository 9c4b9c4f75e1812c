"""`info`: versions, the database, and where settings come from."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dcron import __version__, config, services
from dcron.cli.asking.options import Db, Json
from dcron.cli.output import console, documents
from dcron.cli.output.tables import print_facts
from dcron.cli.running.context import opened_database, own_zone, require_named_file
from dcron.errors import DatabaseError
from dcron.presentation import humanize
from dcron.schedule.zones import tzdata_version

if TYPE_CHECKING:
    from dcron.database import Database


def command(as_json: Json = False, db: Db = None) -> None:
    """Print versions, the database, and where the settings come from."""
    with opened_database(db) as database:
        facts, problem = _database_facts(database)
        known = _known(database, facts, db)
    if as_json:
        renamed = {_KEYS.get(name, name): value for name, value in known.items()}
        console.emit(documents.make("info", json=documents.VERSION, **renamed))
    else:
        shown = {key: value for key, value in known.items() if key not in _IN_HISTORY}
        print_facts(
            (key.replace("_", " "), _text(key, value))
            for key, value in {**shown, "history": _history(facts)}.items()
        )
    for warning in _warnings(facts):
        console.complain(f"warning: {warning}")
    if problem:
        raise problem


def _text(key: str, value: Any) -> str | None:
    """Return the value as people read it; the name of a time ends in `_at`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return None if value is None else str(value)


def _database_facts(
    database: "Database",
) -> tuple["services.database_info.DatabaseFacts | None", DatabaseError | None]:
    """Return what the database reports, and the error if it cannot be used."""
    from dcron import migrations

    facts = None
    try:
        require_named_file(database)
        facts = services.database_info.database_facts(database)
        if facts.schema is not None:
            migrations.require_version(database, facts.schema)
    except DatabaseError as error:
        return facts, error
    return facts, None


_FACTS = {
    "database_version": "version",
    "journal_mode": "journal_mode",
    "pooler": "pooler",
    "encryption": "protection.encryption",
    "sslmode": "protection.sslmode",
    "certificate_verified": "protection.is_verified",
    "require_auth": "protection.require_auth",
    "database_schema": "protection.schema",
    "others_may_create": "protection.others_may_create",
    "synchronous_replication": "replication.is_synchronous",
    "synchronous_standby_names": "replication.standby_names",
    "synchronous_commit": "replication.commit",
    "last_epoch_at": "last_epoch.at",
    "last_epoch_reason": "last_epoch.after",
    "clock_set_back_at": "last_set_back.at",
    "pruned_at": "pruning.ran_at",
    "pruned_runs": "pruning.runs",
    "prune_error": "pruning.error",
    "pruning_begins_at": "pruning.begins_at",
    "oldest_run_at": "oldest_end",
    "schema": "schema",
    "tasks": "tasks",
    "nodes_alive": "nodes_alive",
}
"""What the database reports: its name here, and where it stands."""
_IN_HISTORY = ("pruned_at", "pruned_runs", "oldest_run_at")
"""The facts that the text has as one line."""
_KEYS = {"pruned_runs": "pruned_run_count", "schema": "schema_version", "tasks": "task_count"}
"""The facts that have another name in JSON."""


def _history(facts: "services.database_info.DatabaseFacts | None") -> str | None:
    """Return how much the last round of pruning deleted, and how old the history is."""
    if not facts or not facts.now:
        return None
    oldest = facts.oldest_end
    if facts.pruning and facts.pruning.ran_at:
        return humanize.pruned(facts.pruning.ran_at, facts.pruning.runs, oldest, facts.now)
    return f"oldest {humanize.span((facts.now - oldest).total_seconds())}" if oldest else None


def _warnings(facts: "services.database_info.DatabaseFacts | None") -> Iterator[str]:
    """Yield what is unsafe about the connection and when history is pruned, and the remedy."""
    pruning = facts and facts.pruning
    if facts and pruning and pruning.begins_at and facts.keep_runs != "none":
        yield (
            f"history older than {facts.keep_runs} is pruned from {pruning.begins_at:%Y-%m-%d %H:%M} UTC on:"
            " `dcron config set keep.runs none` keeps it, `dcron prune --dry-run` shows what goes"
        )
    if facts and facts.protection:
        yield from (finding.sentence for finding in services.doctor.unsafe_connection(facts.protection))


def _known(
    database: "Database", facts: "services.database_info.DatabaseFacts | None", url: str | None
) -> dict[str, Any]:
    """Return what `info` prints, in order."""
    own, file = config.files.load_config(), config.files.config_path()
    known = {name: facts and documents.attribute(facts, path) for name, path in _FACTS.items()}
    if facts and (protection := facts.protection):
        known["encryption"] = protection.encryption or (
            "none: this machine" if protection.is_local else "none"
        )
    if facts and facts.replication:
        known["synchronous_replication"] = "on" if facts.replication.is_synchronous else "off"
    if facts and facts.last_epoch:
        known["last_epoch_reason"] = facts.last_epoch.after.get("reason")
    if not known["pruned_at"]:
        known["pruned_runs"] = None
    return {
        "version": __version__,
        "database": str(database.address),
        "database_from": config.files.database_origin(url, own),
        "database_kind": database.product,
        **known,
        "timezone": own_zone(),
        "tzdata": tzdata_version(),
        "context": own.context.name if own.context else None,
        "config_file": str(file) if file.exists() else None,
    }
