"""Keys, their names, and what is typed faster than the screen answers."""
