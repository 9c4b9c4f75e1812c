"""Measure how fast commands start and end under the warden, against bare Popen. No options.

The bare figures are for the same work: both streams captured, sixteen commands at a time, on the same cores.
"""

import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dcron.warden.client import Finished, Job, Started, Warden
from dcron.warden.linux import boottime

RUNS = 2000
AT_A_TIME = 16
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/root", "SHELL": "/bin/sh", "DCRON_TASK": "bench"}
FLOOD = 1 << 30


def main() -> None:
    """Measure and print."""
    rate("Popen, one after the other", lambda: popen(1))
    rate(f"Popen, {AT_A_TIME} at a time", lambda: popen(AT_A_TIME))
    with warden() as ours:
        cpu = cpu_seconds(ours)
        rate("warden, /bin/true", lambda: under(ours, ("/bin/true",)))
        used = (cpu_seconds(ours) - cpu) / RUNS * 1e6
        print(f"{used:10.0f} us of the warden's CPU for each, its part of the spawn included")
        rate("warden, echo, its output read", lambda: under(ours, ("/bin/echo", "hello"), read=True))
        if os.geteuid() == 0:
            rate("warden, /bin/true as nobody (a fork)", lambda: under(ours, ("/bin/true",), user="nobody"))
        flood(ours)
        deadline(ours)
        with Path(f"/proc/{ours.pid}/status").open() as status:
            print(next(line for line in status if line.startswith("VmRSS")).strip())


@contextmanager
def warden() -> Iterator[Warden]:
    """Have a warden that may start commands."""
    with tempfile.TemporaryDirectory() as directory:
        begun = time.perf_counter()
        ours = Warden(Path(directory), "bench-1-00000000")
        print(f"{(time.perf_counter() - begun) * 1000:10.1f} ms until a warden is up")
        ours.set_deadline(math.inf)
        yield ours
        ours.stop(0)
        ours.close()


def rate(what: str, work: Callable[[], None]) -> None:
    """Print how many runs a second the work is."""
    begun = time.perf_counter()
    work()
    print(f"{RUNS / (time.perf_counter() - begun):10.0f} /s  {what}")


def popen(at_a_time: int) -> None:
    """Run /bin/true with its output captured."""
    for _ in range(RUNS // at_a_time):
        children = [
            subprocess.Popen(
                ("/bin/true",),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENV,
                start_new_session=True,
            )
            for _ in range(at_a_time)
        ]
        for child in children:
            child.communicate()


def under(ours: Warden, argv: tuple[str, ...], *, read: bool = False, user: str | None = None) -> None:
    """Run a command under the warden, asking for a new one whenever one has finished, as the agent does."""
    asked = finished = 0
    while finished < RUNS:
        expected = min(AT_A_TIME - (asked - finished), RUNS - asked)
        if expected:
            ours.start([Job(run_id=asked + i, argv=argv, env=ENV, user=user) for i in range(expected)])
            asked += expected
        for event in ours.events(5):
            if isinstance(event, Finished):
                finished += 1
                if read:
                    with ours.journal(event.run_id) as journal:
                        assert journal.read()[0].data == b"hello\n"
                ours.forget(event.run_id)


def flood(ours: Warden) -> None:
    """Print how fast a flood of output is taken in."""
    begun = time.perf_counter()
    ours.start([Job(run_id=1, argv=("head", "-c", str(FLOOD), "/dev/zero"), env=ENV)])
    while not any(isinstance(event, Finished) for event in ours.events(60)):
        pass
    kept = sum(path.stat().st_size for path in ours.spool.path.iterdir())
    speed = FLOOD / 1e6 / (time.perf_counter() - begun)
    print(f"{speed:10.0f} MB/s of output; {kept / 1e6:.0f} of {FLOOD / 1e6:.0f} MB kept")
    ours.forget(1)


def deadline(ours: Warden) -> None:
    """Print how long after a deadline fifty commands are gone."""
    late = []
    for _ in range(5):
        ours.set_deadline(boottime() + 60)
        ours.start([Job(run_id=i, argv=("sleep", "300"), env=ENV) for i in range(50)])
        wait(ours, Started, 50)
        moment = boottime() + 0.2
        ours.set_deadline(moment, grace=0.5)
        wait(ours, Finished, 50)
        late.append(boottime() - moment)
        for run_id in range(50):
            ours.forget(run_id)
    print(f"{statistics.median(late) * 1000:10.1f} ms after a deadline 50 commands are ended and reported")


def wait(ours: Warden, kind: type[Started] | type[Finished], count: int) -> None:
    """Wait for a number of events."""
    while count > 0:
        count -= sum(isinstance(event, kind) for event in ours.events(10))


def cpu_seconds(ours: Warden) -> float:
    """Return what the warden itself has used."""
    fields = Path(f"/proc/{ours.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
