"""Colours, themes, and what the screen remembers."""
