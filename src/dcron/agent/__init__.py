"""The agent: a process on each server that claims due runs, executes them, and records their results."""
