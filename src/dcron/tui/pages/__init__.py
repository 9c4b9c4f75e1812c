"""The pages of one task and of one node."""
