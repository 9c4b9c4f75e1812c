"""All nodes together: the panel above them, and how the state of one is shown."""
