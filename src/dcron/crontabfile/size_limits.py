"""What a crontab file may not exceed, so that a hostile one costs little."""

MAX_BYTES = 1_000_000
MAX_TASKS = 10_000
MAX_SCHEDULE = 256
MAX_VARIABLES = 256
"""Of one task. Every task keeps its own environment, so without a bound a file's cost would be quadratic."""
MAX_PROBLEMS = 1_000
"""A file with more bad lines than this is something else than a crontab; the rest is not read."""
