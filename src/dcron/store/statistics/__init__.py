"""Figures of each day and of now."""
