"""The warden: a small process that starts an agent's commands and kills them when the lease or the agent
ends.

The agent uses `dcron.warden.client`. The package imports the standard library only, so the warden starts in
a few milliseconds, forks cheaply, and never has access to the database.
"""
