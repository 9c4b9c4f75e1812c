"""One module per verb, named as the verb; each has the verb's function, or its Typer, as `command`."""
