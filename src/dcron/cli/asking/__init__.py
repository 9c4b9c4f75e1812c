"""What a command line says: its options, and what they choose."""
