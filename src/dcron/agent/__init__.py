"""The agent: on every server, it takes due turns, has them run, and records how they ended."""
