"""Send messages and pings to other services. A leaf: the standard library, and nothing of dcron."""
