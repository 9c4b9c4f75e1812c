"""Rows of nodes: their leases, epochs, clocks, and what they refuse."""
