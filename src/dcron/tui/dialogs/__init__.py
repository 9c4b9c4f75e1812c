"""Windows over the screen, the prompt, and programs that take the terminal."""
