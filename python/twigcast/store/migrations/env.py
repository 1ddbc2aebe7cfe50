"""What Alembic runs: the migrations, on the connection and in the transaction of the caller."""

from alembic import context

from twigcast.store.migrations import TABLE

# SQLite cannot alter most of a table: Alembic then makes a new table and copies the rows.
context.configure(connection=context.config.attributes["connection"], version_table=TABLE, render_as_batch=True)
context.run_migrations()
