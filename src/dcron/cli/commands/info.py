"""`info`: versions, the database, and where settings come from."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dcron import __version__, services
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


def _continuity(facts: "services.database_info.DatabaseFacts | None") -> dict[str, Any]:
    """Return facts about replication, rollbacks of the database and its clock."""
    known = facts and facts.replication
    epoch, step = (facts.last_epoch, facts.last_set_back) if facts else (None, None)
    return {
        "synchronous_replication": known and ("on" if known.is_synchronous else "off"),
        "synchronous_standby_names": known and known.standby_names,
        "synchronous_commit": known and known.commit,
        "last_epoch_at": epoch and epoch.at,
        "last_epoch_reason": epoch and epoch.after.get("reason"),
        "clock_set_back_at": step and step.at,
    }


def _pruning(facts: "services.database_info.DatabaseFacts | None") -> dict[str, Any]:
    """Return what the last round of pruning did, and how old the history is."""
    known = facts and facts.pruning
    return {
        "pruned_at": known and known.ran_at,
        "pruned_runs": known.runs if known and known.ran_at else None,
        "prune_error": known and known.error,
        "pruning_begins_at": known and known.begins_at,
        "oldest_run_at": facts and facts.oldest_end,
    }


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


def _protection(facts: "services.database_info.DatabaseFacts | None") -> dict[str, Any]:
    """Return how the connection to Postgres is protected, and who else may create objects in the schema."""
    known = facts and facts.protection
    return {
        "encryption": known and (known.encryption or ("none: this machine" if known.is_local else "none")),
        "sslmode": known and known.sslmode,
        "certificate_verified": known and known.is_verified,
        "require_auth": known and known.require_auth,
        "database_schema": known and known.schema,
        "others_may_create": known and known.others_may_create,
    }


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
    from dcron.config.files import config_path, database_origin, load_config

    config = config_path()
    return {
        "version": __version__,
        "database": str(database.address),
        "database_from": database_origin(url, load_config()),
        "database_kind": database.product,
        "database_version": facts and facts.version,
        "journal_mode": facts and facts.journal_mode,
        "pooler": facts and facts.pooler,
        **_protection(facts),
        **_continuity(facts),
        **_pruning(facts),
        "schema": facts and facts.schema,
        "tasks": facts and facts.tasks,
        "nodes_alive": facts and facts.nodes_alive,
        "timezone": own_zone(),
        "tzdata": tzdata_version(),
        "context": chosen.name if (chosen := load_config().context) else None,
        "config_file": str(config) if config.exists() else None,
    }
