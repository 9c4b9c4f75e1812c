"""The database's own witness: triggers that write down each change no living node may make."""

from dataclasses import dataclass

from sqlalchemy import text

from dcron.database import Database

_FINAL = "('succeeded', 'failed', 'skipped', 'cancelled')"
_OTHER_OWNER = "COALESCE(NEW.owner, '') <> COALESCE(OLD.owner, '')"
_CHANGED_FINAL = (
    f"OLD.state IN {_FINAL} AND (NEW.state <> OLD.state OR {_OTHER_OWNER}"
    " OR NEW.finished_at <> OLD.finished_at)"
)
# The end of an unheard run is in the spool of its node, which another agent may deliver.
_BY_THE_DEAD = (
    f"OLD.state NOT IN {_FINAL} AND OLD.state <> 'lost' AND NEW.state NOT IN ('waiting', 'lost')"
    " AND OLD.unheard_since IS NULL"
    " AND NEW.state <> OLD.state AND EXISTS"
    " (SELECT 1 FROM nodes WHERE nodes.id = NEW.owner AND nodes.died_at IS NOT NULL)"
)
_LATE_TRUTH = "OLD.state = 'lost' AND NEW.state <> 'lost'"
_NOT_ITS_OWN = f"OLD.state = 'lost' AND {_OTHER_OWNER}"
_NOT_OF_ITS_NODE = f"OLD.unheard_since IS NOT NULL AND {_OTHER_OWNER}"
_RULES = {
    "a final row changed": _CHANGED_FINAL,
    "a dead node wrote": _BY_THE_DEAD,
    "a lost run changed its owner": _NOT_ITS_OWN,
    "an unheard run changed its owner": _NOT_OF_ITS_NODE,
    "late truth": _LATE_TRUTH,
}


@dataclass(frozen=True)
class Witnessed:
    """What the triggers have written down."""

    violations: list[str]
    late_truths: int
    """Lost runs whose owners reported the result after all."""


def install(database: Database) -> None:
    """Watch every change of a run from now on."""
    with database.write() as connection:
        connection.execute(text("CREATE TABLE faults_audit (rule text, run_id bigint, message text)"))
        message = "OLD.state || ' of ' || COALESCE(OLD.owner, 'nobody') || ' became ' || NEW.state"
        message += " || ' of ' || COALESCE(NEW.owner, 'nobody')"
        for number, (rule, condition) in enumerate(_RULES.items()):
            row = f"INSERT INTO faults_audit VALUES ('{rule}', NEW.id, {message})"
            if database.is_sqlite:
                watch = f"AFTER UPDATE ON runs WHEN {condition} BEGIN {row}; END"
                connection.execute(text(f"CREATE TRIGGER faults_audit_{number} {watch}"))
                continue
            body = f"BEGIN IF {condition} THEN {row}; END IF; RETURN NULL; END"
            made = f"CREATE FUNCTION faults_audit_{number}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"
            connection.execute(text(made))
            watch = f"AFTER UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION faults_audit_{number}()"
            connection.execute(text(f"CREATE TRIGGER faults_audit_{number} {watch}"))


def witnessed(database: Database) -> Witnessed:
    """What was seen since `install`."""
    with database.read() as connection:
        rows = connection.execute(text("SELECT rule, run_id, message FROM faults_audit")).all()
    late = [row for row in rows if row.rule == "late truth"]
    violations = [f"{row.rule}: run {row.run_id}, {row.message}" for row in rows if row.rule != "late truth"]
    return Witnessed(violations, len(late))
