"""Rows of runs: those that wait, their output, and why they cannot start."""
