"""Format values for people. Shared by the CLI and the TUI."""
