"""Play seeds one after the other, report progress, and show the trace of a seed that breaks a rule."""

import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from dcron import migrations
from dcron.database import open_database
from tests.simulation.world import World

MEMORY = Path("/dev/shm")
TRACE_SHOWN = 60


class Failed(AssertionError):  # noqa: N818 - said as people say it
    """A seed that broke something, with what led to it."""


def play(url: str, seed: int, steps: int) -> World:
    """One history on an empty database. Raises Failed with the end of its trace."""
    world = World(url, seed)
    try:
        for _ in range(steps):
            world.step()
        world.heal()
        world.check_history()
    except Exception as error:
        trace = "\n".join(world.trace[-TRACE_SHOWN:])
        again = f"python -m tests.simulation --seed {seed} --steps {steps}"
        raise Failed(f"seed {seed}: {error}\n{trace}\nreplay it with: {again}") from error
    finally:
        world.close()
    return world


def play_on_sqlite(seeds: Iterable[int], steps: int, report_every: float | None = None) -> tuple[int, int]:
    """Many histories, each on a SQLite file in memory; how many seeds, and how many starts there were."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        empty = Path(directory) / "empty.db"
        template = open_database(f"sqlite:///{empty}")
        migrations.prepare(template)
        template.close()
        played = starts = 0
        reported = time.monotonic()
        for seed in seeds:
            path = Path(directory) / f"{seed}.db"
            shutil.copyfile(empty, path)
            starts += len(play(f"sqlite:///{path}", seed, steps).ledger)
            path.unlink()
            played += 1
            if report_every and time.monotonic() - reported > report_every:
                reported = time.monotonic()
                print(f"{played:,} seeds, {starts:,} commands started", flush=True)
        return played, starts
