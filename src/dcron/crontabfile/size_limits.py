"""Limits of a crontab file, so that a hostile one costs little."""

MAX_BYTES = 1_000_000
MAX_TASKS = 10_000
MAX_SCHEDULE = 256
MAX_VARIABLES = 256
"""Of one task. Each task keeps its own environment: without a limit the cost of a file is quadratic."""
MAX_PROBLEMS = 1_000
"""A file with more bad lines is probably no crontab. The rest is not read."""
