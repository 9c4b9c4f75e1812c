"""`python -m tests.faults`: play faults with real agents, and print a row of the table for each."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.campaign import growth, recovery
from tests.faults.campaign.faults import FAULTS
from tests.faults.campaign.playing import BOTH, HEAD, play
from tests.support.databases import PostgresServer


def main() -> int:
    """Play what the arguments ask for; 1 when something broke."""
    given = _arguments()
    if given.list:
        print("\n".join(f"{each.name:20} {each.summary}" for each in FAULTS.values()))
        return 0
    with _server() as server:
        is_clean = _play(list(FAULTS) if given.all else given.fault, given, server)
        if given.recovery:
            _measure_recovery(given, server)
        if given.growth:
            print(growth.HEAD)
            for database in given.database or BOTH:
                print(growth.measure(database, server, given.growth), flush=True)
        if given.growth_for:
            print(growth.HEAD)
            for database in given.database or BOTH:
                print(growth.measure_for(database, server, given.growth_for), flush=True)
    return int(not is_clean)


def _play(names: list[str], given: argparse.Namespace, server: PostgresServer) -> bool:
    """Whether nothing was violated."""
    if not names:
        return True
    print(HEAD)
    violated = []
    for name in names:
        for database in given.database or BOTH:
            if database in FAULTS[name].databases:
                options = {"with_prune": given.with_prune, "lease": given.lease}
                row = play(FAULTS[name], database, given.seed, given.seconds, server, **options)
                print(row, flush=True)
                violated += [f"{name}, {each}: {message}" for each, message in row.verdict.violations.items()]
    print("\n".join(violated), file=sys.stderr)
    return not violated


def _measure_recovery(given: argparse.Namespace, server: PostgresServer) -> None:
    print(recovery.HEAD)
    for database in given.database or BOTH:
        for figure in recovery.measure(database, server if database == "postgres" else None, given.recovery):
            print(figure, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--fault", action="append", choices=FAULTS, default=[], help="repeatable")
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument("--list", action="store_true", help="name the faults")
    parser.add_argument("--database", action="append", choices=BOTH, help="this kind alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30, help="how long each fault lasts")
    parser.add_argument("--lease", type=float, help="of all agents, instead of 4 to 6 s")
    parser.add_argument("--recovery", type=int, default=0, metavar="TIMES", help="measure recovery so often")
    parser.add_argument("--growth", type=int, default=0, metavar="JOBS", help="measure growth over so many")
    parser.add_argument("--growth-for", type=float, default=0, metavar="SECONDS", help="the same for so long")
    parser.add_argument("--with-prune", action="store_true", help="let agents prune old history meanwhile")
    given = parser.parse_args()
    wanted = (given.fault, given.all, given.list, given.recovery, given.growth, given.growth_for)
    if not any(wanted):
        parser.error("name a --fault, or say --all, --recovery, --growth or --growth-for")
    return given


@contextmanager
def _server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
