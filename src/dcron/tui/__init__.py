"""The terminal interface: `dcron tui`. Textual is imported here and nowhere else."""
