"""Wall clocks that are wrong and step."""

import shutil
import subprocess
import time
from pathlib import Path

from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import LEASES, Stage

FOR_EVER = 2**40
SOURCE = Path(__file__).with_name("wallclock.c")


@fault("clocks", ("postgres",))
def clocks(stage: Stage) -> Figures:
    """Wall clocks of two nodes of three five minutes ahead and behind, stepping back and forth."""
    for name, shift, step in (("web-2", 300, 7), ("web-3", -300, 11)):
        _shift(stage, name, shift, 0, FOR_EVER, step)
    stage.begin()
    offsets: set[float] = set()
    end = time.monotonic() + stage.seconds
    while time.monotonic() < end:
        time.sleep(0.5)
        offsets |= {round(node.clock_offset, -1) for node in stage.cluster.alive() if node.clock_offset}
    return {"offsets seen": f"{min(offsets, default=0):+g} to {max(offsets, default=0):+g} s"}


@fault("clock-steps", ("sqlite",))
def clock_steps(stage: Stage) -> Figures:
    """The machine's wall clock, which is also the database's, five minutes forward and later back."""
    begins = int(time.monotonic()) + 10
    ends = begins + int(max(8.0, stage.seconds / 2))
    for name in LEASES:
        _shift(stage, name, 300, begins, ends)
    stage.begin()
    time.sleep(ends + 3 - time.monotonic())
    return {"forward for": f"{ends - begins} s"}


def _shift(stage: Stage, name: str, seconds: int, begins: int, ends: int, step: int = 0) -> None:
    """Let this agent's wall clock be wrong between two moments of the monotonic clock."""
    given = {"SHIFT": seconds, "FROM": begins, "UNTIL": ends, "STEP": step}
    wrong = {f"WALLCLOCK_{word}": str(value) for word, value in given.items()}
    stage.environments[name] = {"LD_PRELOAD": str(compiled(stage.directory)), **wrong}


def compiled(directory: Path) -> Path:
    """The library that shifts the clock. Raises NotHere without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotHere("there is no C compiler here")
    library = directory / "wallclock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=60)
    return library
