"""Values and texts: quantities, JSON, and text that is safe to show."""
