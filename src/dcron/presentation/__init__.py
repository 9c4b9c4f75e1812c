"""How things are told to people, in the same words by the command line and by the screen."""
