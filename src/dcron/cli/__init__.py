"""The command line: a thin face over the services. What commands need is imported when they run."""
