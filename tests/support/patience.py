"""How long a test waits for what must come true."""

PATIENCE = 60.0
"""Seconds, however soon it comes true on a quiet machine: others are slow and busy."""
