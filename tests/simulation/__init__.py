"""A cluster played in one thread from a seed: the real store, simulated clocks, nodes, people and faults."""
