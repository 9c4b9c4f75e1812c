"""The services through which the CLI and the TUI read and change a crontab, one for each subject."""
