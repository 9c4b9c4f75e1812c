"""The warden: a small process that starts an agent's commands, and ends them with the lease or the agent.

`dcron.warden.client` is what the agent uses. The package imports the standard library only, so that the
warden starts in a few milliseconds, forks cheaply, and never sees the database.
"""
