from dcron import migrations
from dcron.database import Database


def test_an_empty_database_gets_its_tables(database: Database) -> None:
    migrations.prepare(database)
    assert migrations.current_version(database) == migrations.SCHEMA_VERSION
