"""One campaign from its seed to its row in the table."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.campaign import checks, leftovers, pruning
from tests.faults.campaign.checks import Verdict
from tests.faults.campaign.stage import Stage, stage
from tests.support.databases import PostgresServer

BOTH = ("sqlite", "postgres")
Figures = dict[str, object]


class NotHere(Exception):  # noqa: N818 - it is no error of the campaign
    """This machine lacks what the fault needs; the message says what."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, and how it is made to."""

    name: str
    summary: str
    act: Callable[[Stage], Figures | None]
    databases: tuple[str, ...]
    judge: Callable[[Stage], Verdict]
    comes_to_rest: bool
    """Whether all has to be well again afterwards."""


def fault(
    name: str,
    databases: tuple[str, ...] = BOTH,
    *,
    judge: Callable[[Stage], Verdict] = checks.judge,
    comes_to_rest: bool = True,
) -> Callable[[Callable[[Stage], Figures | None]], Fault]:
    """Make a fault of the function; its docstring says what it does."""

    def make(act: Callable[[Stage], Figures | None]) -> Fault:
        summary = (act.__doc__ or name).strip().splitlines()[0].rstrip(".")
        return Fault(name, summary, act, databases, judge, comes_to_rest)

    return make


@dataclass
class Row:
    """What a campaign found."""

    fault: Fault
    database: str
    seed: int
    seconds: float
    verdict: Verdict
    figures: Figures
    took: float = 0.0
    """Seconds that it really lasted, the beginning included."""
    missing: str | None = None
    """What this machine lacks, where the campaign could not be played."""

    @property
    def is_clean(self) -> bool:
        return not self.verdict.violations

    def __str__(self) -> str:
        figures = "; ".join(f"{name} {value}" for name, value in self.figures.items())
        found = ", ".join(f"{key}: {len(each)}" for key, each in self.verdict.violations.items()) or "none"
        if self.missing:
            found, figures = "not played", self.missing
        command = f"--fault {self.fault.name} --database {self.database} --seed {self.seed}"
        cells = (self.fault.summary, self.database, f"{self.took:.0f} s", self.verdict.starts, found, figures)
        return f"| {' | '.join(map(str, cells))} | `{command} --seconds {self.seconds:g}` |"


HEAD = (
    "| fault | database | lasted | starts | violations | figures | `python -m tests.faults …` |\n"
    + "|---" * 7
    + "|"
)


def play(
    fault: Fault,
    database: str,
    seed: int,
    seconds: float,
    server: PostgresServer | None,
    directory: Path | None = None,
    *,
    with_prune: bool = False,
    lease: float | None = None,
) -> Row:
    """Play the fault, let everything come to rest, end the agents, and judge.

    With `with_prune`, agents prune old history meanwhile. `lease` replaces the short leases of all agents.
    """
    given = server if database == "postgres" else None
    with stage(given, seed, seconds, directory) as played:
        if lease:
            played.leases = dict.fromkeys(played.leases, lease)
        if with_prune:
            pruning.prepare(played)
        began = time.monotonic()
        try:
            figures = fault.act(played) or {}
        except NotHere as missing:
            return Row(fault, database, seed, seconds, Verdict(), {}, missing=str(missing))
        except AssertionError as broken:
            figures = {}
            played.problems.append(str(broken))
        found: list[str] = []
        took = time.monotonic() - began
        rest = played.settle() if fault.comes_to_rest else None
        if fault.comes_to_rest and rest is None:
            found.append("no rest was found")
        zombies = leftovers.lasting_zombies([agent.process.pid for agent in played.living()])
        found += _end(played)
        for act in played.at_the_end:
            act()
        verdict = fault.judge(played)
        verdict.add("rest", found)
        verdict.add("fault", played.problems)
        verdict.add("I6", [f"{zombies} zombies"] if zombies else [])
        if verdict.violations:
            keep_evidence(played, fault, database, seed, verdict)
    return Row(
        *(fault, database, seed, seconds, verdict),
        _usual(verdict, rest, max(played.leases.values())) | figures | played.figures,
        took=took,
    )


def _usual(verdict: Verdict, rest: float | None, lease: float) -> Figures:
    states = {state: count for state, count in sorted(verdict.states.items()) if state != "waiting"}
    figures: Figures = {"at rest after": f"{rest:.1f} s"} if rest is not None else {}
    pause = verdict.longest_pause
    figures |= {"no start for at most": f"{pause:.1f} s, {pause / lease:.1f} leases"} if pause else {}
    return figures | states | ({"late truths": verdict.late_truths} if verdict.late_truths else {})


def _end(played: Stage) -> list[str]:
    """End all agents in order; what was wrong with how they ended."""
    found = []
    for agent in played.living():
        agent.terminate()
    deadline = time.monotonic() + 60
    for agent in played.cluster.agents:
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(max(0.1, deadline - time.monotonic()))
        if agent.process.returncode not in played.expected_exits:
            found.append(f"{agent.name} ended with {agent.process.returncode}")
    logs = sorted(played.directory.glob("*.log"))
    traced = [log.name for log in logs if "Traceback" in log.read_text(errors="replace")]
    return found + [f"{name} has a traceback" for name in traced]


def keep_evidence(played: Stage, fault: Fault, database: str, seed: int, verdict: Verdict) -> None:
    """Keep the logs, the ledger and the violations in a directory of their own, and print its path."""
    place = Path(tempfile.gettempdir()) / f"dcron-evidence-{fault.name}-{database}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path in [*played.directory.glob("*.log"), played.cluster.ledger_path]:
        shutil.copy(path, place)
    found = [f"{invariant}: {text}\n" for invariant, texts in verdict.violations.items() for text in texts]
    (place / "violations").write_text("".join(found))
    print(f"evidence: {place}", flush=True)
