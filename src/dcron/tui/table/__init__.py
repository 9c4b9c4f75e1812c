"""The table of a view, its cells, filters and panels."""
