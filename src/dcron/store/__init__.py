"""Every SQL statement of dcron. Functions take a connection and `now`; they neither begin nor commit.

What agents ask all the time is made once and cached: making a statement takes SQLAlchemy longer than the
database takes to answer it.
"""
