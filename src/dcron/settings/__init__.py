"""What the whole crontab says: its settings, and their values by label."""
