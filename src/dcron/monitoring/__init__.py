"""Serve figures to a monitoring system: the HTTP server, and the page with the figures of the crontab."""
