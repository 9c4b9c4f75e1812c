"""What tests share: databases, crontabs, nodes, real agents, command lines and screens."""
