"""Every SQL statement of dcron. Functions take a connection and `now`; they neither begin nor commit.

Statements that agents run often are built once and cached: SQLAlchemy takes longer to build a statement than
the database takes to run it.
"""
