"""Shared parts of the tests: databases, crontabs, nodes, real agents, command lines and screens."""
