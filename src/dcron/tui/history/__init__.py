"""The history of the crontab, or of one task: who changed what, when and why; changes are undone here."""
