"""How the timeline is drawn: the scale, its header, and the row of a task."""
