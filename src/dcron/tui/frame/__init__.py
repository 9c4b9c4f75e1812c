"""What stands around the views: header, footer, messages, the command line and the help."""
