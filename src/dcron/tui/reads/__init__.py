"""How the screen reads and writes the database without waiting for it."""
