"""The log viewer: what a run printed, while it prints and afterwards, however much it is."""
