"""Large amounts: a drain, a herd, a week of downtime, unreadable rows."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, text, update

from dcron.model import Definition, RunState, Trigger
from dcron.schema.tables import crontab, runs
from tests.faults.campaign import ledger
from tests.faults.campaign.ledger import Load
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for

AGENTS = 50
FAR = "0 0 1 1 *"
JOBS = 50


@fault("drain")
def drain(stage: Stage) -> Figures:
    """SIGTERM to an agent with 50 jobs under way: all end by themselves, and nothing new begins."""
    stage.slots, stage.options = JOBS + 10, ("--grace", "60s")
    stage.load([Load("job", FAR, 6.0, fields={"max_running": None})])
    agent = stage.start("web-1")
    stage.cluster.wait_until_alive(1, within=60)
    crontab_of = stage.cluster.crontab
    asked = [crontab_of.run(stage.tasks[0]) for _ in range(JOBS)]
    wait_for(lambda: len(stage.cluster.runs(RunState.RUNNING)) == JOBS, 60, f"{JOBS} jobs run")
    began = time.monotonic()
    agent.terminate()
    wait_for(lambda: "stops when" in agent.log.read_text(), 10, "it drains")
    time.sleep(0.5)  # the step that it is in may still start a run
    later = crontab_of.run(stage.tasks[0])
    code = agent.wait(90)
    took = time.monotonic() - began
    ends = [crontab_of.find_run(run.id).state for run in asked]
    done = ends.count(RunState.SUCCEEDED)
    stage.require(code == 0, f"the agent ended with {code}")
    stage.require(done == JOBS, f"{done} of {JOBS} jobs succeeded")
    stage.require(crontab_of.find_run(later.id).state is RunState.WAITING, "a later run was taken")
    return {"jobs": JOBS, "drained in": f"{took:.1f} s"}


@fault("herd")
def herd(stage: Stage) -> Figures:
    """10,000 tasks due in one second (1,000 when it is to be short)."""
    count = 10_000 if stage.seconds >= 30 else 1_000
    line = Load("herd", FAR, 0.0)
    ledger.write_script(stage.directory)
    say = 'read -r up rest < /proc/uptime; echo "$0 $DCRON_RUN_ID $DCRON_TASK $DCRON_SCHEDULED_FOR'
    say += f' $DCRON_ATTEMPT $DCRON_TRIGGER $DCRON_NODE $1 $up" >> {stage.directory / "ledger"}'
    twice = f"say() {{ {say.replace('$1', '$2').replace('$0', '$1')}; }}; say start -; say end 0"
    for name in ("web-1", "web-2", "web-3"):
        stage.start(name)
    stage.cluster.wait_until_alive(3, within=60)
    due = stage.cluster.crontab.now().replace(microsecond=0) + timedelta(seconds=10 + count // 200)
    usual = {"timezone": "UTC", "command": twice, "env": {"CAMPAIGN": str(stage.directory)}}
    schedule = f"@at {due:%Y-%m-%dT%H:%M:%SZ}"
    lines = [Definition(name=f"{line.name}-{n}", schedule=schedule, **usual) for n in range(count)]  # type: ignore[arg-type]
    stage.cluster.crontab.import_tasks(lines)
    stage.tasks = list(stage.cluster.crontab.tasks())
    stage.require(stage.cluster.crontab.now() < due, "the herd was not ready before it was due")
    wait_for(lambda: _succeeded(stage) >= count, 300, f"{count} runs succeeded")
    with stage.cluster.database.read() as connection:
        last = connection.scalar(select(func.max(runs.c.started_at)))
    return {"tasks": count, "last start after": f"{(last - due).total_seconds():.1f} s"}


@fault("fifty-agents", ("sqlite",))
def fifty_agents(stage: Stage) -> Figures:
    """50 agents on one SQLite file, each with the default lease, and 50 tasks due each minute."""
    stage.leases = {f"web-{number:02}": 60.0 for number in range(AGENTS)}
    stage.slots = 2
    began = time.monotonic()
    stage.load([Load(f"minute-{number}", "* * * * *", 0.5) for number in range(AGENTS)])
    for name in stage.leases:
        stage.start(name)
        time.sleep(0.5)
    stage.cluster.wait_until_alive(AGENTS, within=300)
    started, before = time.monotonic() - began, {node.id for node in stage.cluster.alive()}
    used = sum(cpu_seconds(agent.process.pid) for agent in stage.living())
    lasts = max(130.0, stage.seconds)
    time.sleep(lasts)
    used = sum(cpu_seconds(agent.process.pid) for agent in stage.living()) - used
    stage.require({node.id for node in stage.cluster.alive()} == before, "a node lost its lease")
    late = [
        (run.started_at - run.due_at).total_seconds()
        for run in stage.cluster.runs(RunState.SUCCEEDED, RunState.RUNNING)
        if run.started_at and run.trigger is Trigger.SCHEDULE
    ]
    stage.require(len(late) >= 2 * AGENTS, f"{len(late)} runs started")
    return {
        "all alive after": f"{started:.0f} s",
        "CPU of all": f"{used / lasts:.0%} of a core",
        "latest start": f"{max(late, default=0.0):.1f} s late",
    }


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _succeeded(stage: Stage) -> int:
    time.sleep(0.5)
    with stage.cluster.database.read() as connection:
        query = select(func.count()).where(runs.c.state == "succeeded")
        return int(connection.scalar(query) or 0)


@fault("downtime")
def downtime(stage: Stage) -> Figures:
    """A week without agents, with 20 minutely tasks."""
    week = timedelta(days=7)
    lines = [Load(f"minutely-{n}", "* * * * *", 0.1) for n in range(20)]
    stage.load(lines)
    with stage.cluster.database.write() as connection:
        for row in connection.execute(select(runs.c.id, runs.c.scheduled_for, runs.c.due_at)).all():
            moved = {"scheduled_for": row.scheduled_for - week, "due_at": row.due_at - week}
            connection.execute(update(runs).where(runs.c.id == row.id).values(moved))
    began = time.monotonic()
    for name in ("web-1", "web-2", "web-3"):
        stage.start(name)
    stage.cluster.wait_until_alive(3, within=60)
    wait_for(lambda: _succeeded(stage) >= len(lines), 120, "each task has caught up once")
    ranges = [run for run in stage.cluster.runs(RunState.SKIPPED) if "occurrences" in (run.reason or "")]
    stage.require(len(ranges) >= len(lines), f"{len(ranges)} rows record what was missed")
    starts = len(stage.cluster.ledger()) // 2
    stage.require(starts <= 3 * len(lines), f"{starts} starts: a stampede")
    example = ranges[0].reason if ranges else "nothing"
    return {"caught up within": f"{time.monotonic() - began:.1f} s", "recorded as": f"“{example}”"}


@fault("poison")
def poison(stage: Stage) -> Figures:
    """Rows written by SQL that no agent can run: bad schedule, zone, spec, NUL, a command of 1 MB."""
    stage.begin()
    lines: dict[str, dict[str, Any]] = {
        "bad-schedule": {"schedule": "99 99 * * *"},
        "bad-zone": {"timezone": "Mars/Olympus"},
        "huge": {"command": "true #" + "x" * 2**20},
        "bad-user": {"user": "nobody-of-this-name"},
    }
    if stage.server is None:  # Postgres takes no NUL
        lines["nul"] = {"command": "echo a\0b"}
    usual = {"schedule": "@every 2s", "timezone": "UTC", "command": "true"}
    with stage.cluster.database.write() as connection:
        for name, fields in lines.items():
            connection.execute(insert(crontab).values({"name": name, **usual, **fields}))
    spoilt = stage.cluster.add("bad-spec", FAR, "true")
    run = stage.cluster.crontab.run(spoilt)
    with stage.cluster.database.write() as connection:
        waits = text("UPDATE runs SET spec = '[1' WHERE task = 'bad-spec' AND state = 'waiting'")
        connection.execute(waits)
    time.sleep(stage.seconds)
    complaints = {name: _complaint_about(stage, name) for name in lines}
    for name, words in complaints.items():
        stage.require(words, f"nothing says what is wrong with {name}")
    stage.require(stage.cluster.crontab.find_run(run.id).state.is_final, "the run with a bad spec waits on")
    with stage.cluster.database.write() as connection:
        for name in lines:
            connection.execute(update(crontab).where(crontab.c.name == name).values(enabled=False))
    return {name: f"“{words[:60]}”" for name, words in complaints.items()}


def _complaint_about(stage: Stage, name: str) -> str:
    with stage.cluster.database.read() as connection:
        error = connection.scalar(select(crontab.c.error).where(crontab.c.name == name))
        query = select(runs.c.reason).where(runs.c.task == name, runs.c.reason.is_not(None))
        return str(error or connection.scalar(query.order_by(runs.c.id).limit(1)) or "")
