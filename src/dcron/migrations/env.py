"""Run the migrations for Alembic, on the caller's connection and in the caller's transaction."""

from alembic import context

from dcron.migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
