"""Rows of alerts, and the notifications that they send."""
