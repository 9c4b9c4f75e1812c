"""Rows of tasks, and of what they name: calendars, queues, channels, settings."""
