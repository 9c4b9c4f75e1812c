"""The page of a task: overview, runs, log and dependencies."""
