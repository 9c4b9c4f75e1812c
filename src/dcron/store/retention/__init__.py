"""What goes of the history when it is old, and what is archived or held before."""
