"""Alembic's entry: migrate through the connection, and in the transaction, that the caller holds."""

from alembic import context

from dcron.migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
