"""What a verb prints, for people and for programs."""
