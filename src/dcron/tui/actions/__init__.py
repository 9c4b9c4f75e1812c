"""What can be done from the screen. Acts that destroy something ask first."""
