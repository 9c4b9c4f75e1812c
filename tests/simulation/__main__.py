"""`python -m tests.simulation`: play many seeds, or one again."""

import argparse
import sys
import time

from tests.simulation.playing import Failed, play_on_sqlite


def main() -> int:
    """Play what the arguments ask for; 1 when something broke."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=100, help="how many, from --first on")
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--seed", type=int, help="this one alone")
    arguments.add_argument("--steps", type=int, default=300, help="of each history")
    given = arguments.parse_args()
    seeds = [given.seed] if given.seed is not None else range(given.first, given.first + given.seeds)
    began = time.monotonic()
    try:
        played, starts = play_on_sqlite(seeds, given.steps, report_every=10)
    except Failed as error:
        print(error)
        return 1
    took = time.monotonic() - began
    print(
        f"{played:,} seeds of {given.steps} steps, {starts:,} commands started, nothing broke ({took:.0f} s)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
