"""`demo`: a temporary crontab with real agents."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated, Any

import typer

from dcron import services
from dcron.cli.asking.options import whole_number
from dcron.cli.output import console, task_table
from dcron.cli.output.run_table import run_columns, run_row
from dcron.cli.output.tables import print_table
from dcron.cli.running.context import own_zone
from dcron.cli.running.screen import has_screen, show
from dcron.errors import DcronError
from dcron.model import Definition, Run, RunState
from dcron.nodepolicy.accounts import ACCEPT_ALL
from dcron.schedule.zones import zone
from dcron.values.lists import RunFilter

SECONDS = 15.0
"""How long the demo runs without a terminal."""
PATIENT_SECONDS = 45.0
"""How long it runs at most, if a task has not run yet."""
NOTE_EVERY = 4.0
"""Seconds between two notes about the runs, without a terminal."""
LEASE = "10s"
PATIENCE = 4.0
"""Seconds that an agent has to stop."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TASKS: list[dict[str, Any]] = [
    {
        "name": "heartbeat",
        "schedule": "@every 2s",
        "command": 'echo "beat $DCRON_RUN_ID on $DCRON_NODE"',
        "describe": "Each run is on one agent. 4 shows the agents: kill -9 one, and the others continue.",
    },
    {"name": "disk", "schedule": "@every 5s", "command": "df -h /"},
    {"name": "mail", "schedule": "@every 7s", "command": "echo 'no route to mail.example' >&2; exit 3"},
    {
        "name": "import",
        "schedule": "@every 3s",
        "command": "for part in 1 2 3 4 5; do echo part $part; sleep 1; done",
        "describe": "Takes longer than its period: a run that is due meanwhile is skipped.",
    },
    {
        "name": "tokyo",
        "schedule": "0 9 * * mon-fri",
        "timezone": "Asia/Tokyo",
        "command": "echo good morning",
    },
    {"name": "zurich", "schedule": "30 2 * * *", "timezone": "Europe/Zurich", "command": "echo closed"},
]


class Stopped(BaseException):
    """Raised when a signal ends the demo."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def command(
    agents: Annotated[
        int, typer.Option("--agents", metavar="N", help="Number of agents.", parser=whole_number(1, 20))
    ] = 3,
) -> None:
    """Show several agents that share a crontab.

    \b
    dcron demo
    dcron demo --agents 5

    The agents and the database are real; their temporary directory is removed at the end. On a terminal, the
    demo opens the TUI until you press q. Elsewhere it runs for 15 seconds, and fails if a task did not run.
    """
    number = 0
    temporary = TemporaryDirectory(prefix="dcron-demo-", ignore_cleanup_errors=True)
    with _signals_as_exceptions(), temporary as name:
        directory = Path(name)
        try:
            names = [f"web-{number}" for number in range(1, agents + 1)]
            with _crontab(directory) as crontab, running_agents(directory, names) as processes:
                if has_screen():
                    _watch(directory)
                    for last in _last_log_lines(directory, processes):
                        console.note(f"agent ended: {last}")
                else:
                    _run_unwatched(crontab, directory, processes)
        except Stopped as stopped:
            number = stopped.number
    if number and not (number == signal.SIGINT and console.is_terminal()):
        raise typer.Exit(128 + number)


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Turn signals into exceptions, so that the demo cleans up; ignore further signals meanwhile."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    with _handled(stop):
        yield


@contextmanager
def _handled(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _crontab(directory: Path) -> Iterator["services.crontab.Crontab"]:
    """Open the crontab of the demo, with its tasks."""
    crontab = _connect(directory)
    with closing(crontab.database):
        for task in TASKS:
            crontab.add(Definition(**{"timezone": "UTC", **task}))
        yield crontab


def _connect(directory: Path) -> "services.crontab.Crontab":
    from dcron.database import open_database

    return services.crontab.Crontab(open_database(url_in(directory)), "demo")


@contextmanager
def running_agents(directory: Path, names: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run agents of these names on the crontab in this directory, and stop them at the end."""
    processes: list[subprocess.Popen[bytes]] = []

    def start_all() -> None:
        for name in names:
            processes.append(_start_agent(directory, name))  # noqa: PERF401 - those started count

    # In a thread: a signal interrupts only the main thread, so it never separates a start from its record.
    starter = threading.Thread(target=start_all)
    starter.start()
    try:
        starter.join()
        yield processes
    finally:
        starter.join()
        _stop(processes)


def _start_agent(directory: Path, name: str) -> subprocess.Popen[bytes]:
    (directory / "config.toml").touch()
    (directory / "policy.toml").write_text(f"{ACCEPT_ALL}\n")
    own = {
        "DCRON_DB": url_in(directory),
        "DCRON_SPOOL": str(directory / f"spool-{name}"),
        "DCRON_CONFIG": str(directory / "config.toml"),
        "DCRON_POLICY": str(directory / "policy.toml"),
    }
    words = ["agent", "--name", name, "--slots", "2", "--lease", LEASE, "--grace", "1s"]
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dcron", *words],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only the demo, which then stops its agents
        )


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Stop the processes: with SIGTERM, with a second SIGTERM, and at last with SIGKILL."""
    for ask, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        for process in processes:
            if process.poll() is None:
                process.send_signal(ask)
        deadline = time.monotonic() + patience
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)


def url_in(directory: Path) -> str:
    """Return the URL of the crontab in this directory."""
    return f"sqlite:///{directory / 'dcron.db'}"


def _watch(directory: Path) -> None:
    """Show the TUI until the user quits or a signal arrives."""
    from dcron.tui.app import DcronApp
    from dcron.tui.look.colours import terminal_colours
    from dcron.tui.look.settings import TuiSettings, has_unicode

    app = DcronApp(
        TuiSettings(
            "demo",
            unicode=has_unicode(os.environ),
            colours=terminal_colours(),
            environment={"DCRON_DB": url_in(directory)},
        ),
        lambda: _connect(directory),
        lambda: zone(own_zone()),
    )
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        app.exit()

    with _handled(stop):
        show(app)
    if caught:
        raise Stopped(caught[0])


def _run_unwatched(
    crontab: "services.crontab.Crontab", directory: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    names = ", ".join(f"web-{number}" for number in range(1, len(processes) + 1))
    console.note(f"{len(TASKS)} tasks, agents {names}; {SECONDS:.0f} seconds")
    begun = noted = time.monotonic()
    while (passed := time.monotonic() - begun) < PATIENT_SECONDS:
        time.sleep(0.2)
        if time.monotonic() - noted >= NOTE_EVERY:
            noted = time.monotonic()
            console.note(f"{passed:.0f} s: {len(_past_runs(crontab))} runs have ended")
        if list(_last_log_lines(directory, processes)) or (
            passed >= SECONDS and not _missing(crontab, directory, processes)
        ):
            break
    now, runs = crontab.now(), _past_runs(crontab)
    print_table(task_table.COLUMNS, (task_table.row(view, now) for view in crontab.list_tasks()))
    console.data()
    here = zone("UTC")
    print_table(run_columns(here), (run_row(run, here, now) for run in runs[:12]))
    owners = Counter(run.node for run in runs if run.node)
    console.data()
    console.data("runs by owner: " + ", ".join(f"{node} {count}" for node, count in sorted(owners.items())))
    if missing := _missing(crontab, directory, processes):
        raise DcronError("the demo failed: " + "; ".join(missing))


def _past_runs(crontab: "services.crontab.Crontab") -> list[Run]:
    return crontab.runs(RunFilter(states=[state for state in RunState if state.is_final]), limit=500)


def _last_log_lines(directory: Path, processes: list[subprocess.Popen[bytes]]) -> Iterator[str]:
    """Yield the last log line of each agent that has ended."""
    for number, process in enumerate(processes, 1):
        if process.poll() is not None:
            logged = (directory / f"web-{number}.log").read_text("utf-8", "replace").splitlines()
            yield f"web-{number}, whose last log line is: {logged[-1] if logged else process.returncode}"


def _missing(
    crontab: "services.crontab.Crontab", directory: Path, processes: list[subprocess.Popen[bytes]]
) -> list[str]:
    """Return what should have happened and did not."""
    ended = Counter((run.task, run.state) for run in _past_runs(crontab))
    expected = {
        ("heartbeat", RunState.SUCCEEDED): 2,
        ("disk", RunState.SUCCEEDED): 1,
        ("mail", RunState.FAILED): 1,
        ("import", RunState.SUCCEEDED): 1,
        ("import", RunState.SKIPPED): 1,
    }
    missing = [
        f"{task} {state} {ended[task, state]} times, not {least}"
        for (task, state), least in expected.items()
        if ended[task, state] < least
    ]
    missing += [f"an agent has ended: {last}" for last in _last_log_lines(directory, processes)]
    if len(crontab.nodes()) < len(processes):
        missing.append("not every agent has joined")
    return missing
