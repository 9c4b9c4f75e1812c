"""The command line: a thin layer over the services. What a verb needs is imported when it runs."""
