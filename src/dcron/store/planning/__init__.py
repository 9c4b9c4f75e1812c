"""Which runs come next: by the schedule, after other tasks, by events."""
