"""What tasks may ask for, with real agents and jobs that write down themselves when they began and ended."""

import itertools
import time

import pytest
from sqlalchemy import text

from dcron.model import RunState
from dcron.services.fleet import Fleet
from dcron.services.runs.triggers import Triggers
from tests.support.cluster import Cluster, wait_for

FAR = "0 0 1 1 *"


def most_at_once(team: Cluster) -> int:
    """The largest number of jobs that were under way together, by their own entries."""
    alive = most = 0
    for entry in team.ledger():
        alive += 1 if entry[-1] == "began" else -1
        most = max(most, alive)
    return most


def job(team: Cluster, seconds: float = 0.2) -> str:
    return f"{team.entry('began')}; sleep {seconds}; {team.entry('ended')}"


def finished(team: Cluster, count: int, task: str | None = None) -> bool:
    return len([run for run in team.runs(task=task) if run.state.is_final]) >= count


@pytest.mark.parametrize("limit", [1, 3])
def test_a_queues_limit_holds_over_tasks_and_agents(team: Cluster, limit: int) -> None:
    Fleet(team.crontab).set_queue("mail", limit)
    for name in ("web-1", "web-2", "web-3"):
        team.start_agent(name, lease=30)
    tasks = [team.add(f"mail-{n}", FAR, job(team), queue="mail", max_running=None) for n in range(4)]
    team.wait_until_alive(3)
    for _ in range(5):
        for task in tasks:
            team.crontab.run(task)
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) == 20, 60, "all have run")
    assert min(limit, 2) <= most_at_once(team) <= limit


@pytest.mark.parametrize("limit", [1, 3])
def test_a_tasks_limit_holds_and_what_comes_too_early_waits(team: Cluster, limit: int) -> None:
    for name in ("web-1", "web-2", "web-3"):
        team.start_agent(name, lease=30)
    task = team.add("job", FAR, job(team), max_running=limit, overlap="queue")
    team.wait_until_alive(3)
    for _ in range(12):
        team.crontab.run(task)
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) == 12, 60, "all have run")
    assert min(limit, 2) <= most_at_once(team) <= limit


def test_a_run_that_replaces_another_stops_it_and_starts(team: Cluster) -> None:
    team.start_agent("web-1", lease=30)
    task = team.add("job", FAR, f"{team.entry('began')}; exec sleep 300", overlap="replace")
    team.wait_until_alive(1)
    first = team.crontab.run(task)
    wait_for(lambda: len(team.ledger()) == 1, 10, "the first has begun")
    second = team.crontab.run(task)
    wait_for(lambda: len(team.ledger()) == 2, 10, "the second has begun")
    stopped = team.crontab.find_run(first.id)
    assert (stopped.state, stopped.reason) == (
        RunState.CANCELLED,
        f"cancelled by run {second.id}, which replaces it",
    )
    assert team.crontab.find_run(second.id).state is RunState.RUNNING
    team.crontab.cancel(second.id)
    wait_for(lambda: team.crontab.find_run(second.id).state.is_final, 10, "it is stopped, too")


@pytest.mark.long
def test_a_task_that_kills_its_agent_every_time_stops_at_its_tries(team: Cluster) -> None:
    for name in ("web-1", "web-2", "web-3", "web-4"):
        team.start_agent(name)
    team.wait_until_alive(4)
    # The agent is the parent of the guard, that of the warden, and that of the command.
    kill_agent = "kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $(ps -o ppid= -p $$))); sleep 60"
    task = team.add(
        "deadly", FAR, f"{team.entry('began')}; {kill_agent}", tries=3, backoff=0.1, on_lost="retry"
    )
    team.crontab.run(task)
    wait_for(lambda: len(team.runs(RunState.LOST)) == 3, 60, "three attempts were lost")
    wait_for(lambda: team.runs(RunState.LOST)[-1].dead_at is not None, 10, "the last is a dead letter")
    lost = team.runs(RunState.LOST)
    assert [run.attempt for run in lost] == [1, 2, 3]
    assert [run.dead_at is None for run in lost] == [True, True, False]
    assert len(team.ledger()) == 3
    assert team.runs(RunState.WAITING) == [run for run in team.runs() if run.trigger == "schedule"]
    team.wait_until_alive(1)


def test_a_failing_task_is_retried_while_its_schedule_goes_on(team: Cluster) -> None:
    team.start_agent("web-1", lease=30)
    team.wait_until_alive(1)
    team.add("fails", "@every 1s", f"{team.entry('$DCRON_ATTEMPT')}; exit 3", tries=2, backoff=0.2)
    wait_for(lambda: len([entry for entry in team.ledger() if entry[-1] == "2"]) >= 3, 30, "three retries")
    first = [entry for entry in team.ledger() if entry[-1] == "1"]
    assert len({occurrence for _, occurrence, *_ in first}) == len(first)
    wait_for(lambda: [run for run in team.runs(RunState.FAILED) if run.dead_at], 10, "a dead letter")
    assert {run.attempt for run in team.runs(RunState.FAILED) if run.dead_at} == {2}


def test_what_is_not_started_in_time_is_skipped(team: Cluster) -> None:
    task = team.add("late", FAR, team.entry("began"), deadline=1.0, require=("gpu",))
    team.crontab.run(task)
    team.start_agent("web-1")
    (run,) = team.runs(task="late")[-1:]
    wait_for(lambda: team.crontab.find_run(run.id).state.is_final, 15, "it is given up")
    ended = team.crontab.find_run(run.id)
    assert (ended.state, ended.reason) == (RunState.SKIPPED, "expired: not started within 1s")
    assert team.ledger() == []


def test_runs_go_where_their_tags_queues_and_needs_say(team: Cluster) -> None:
    team.start_agent("plain", "--queue", "default", lease=30)
    team.start_agent("gpu", "--tag", "gpu", "--tag", "zone=eu", "--capacity", "gpu=1", lease=30)
    team.wait_until_alive(2)
    tasks = [
        team.add("tagged", FAR, "true", require=("gpu", "zone=eu"), max_running=None),
        team.add("queued", FAR, "true", queue="reports", max_running=None),
        team.add("needy", FAR, job(team), need={"gpu": 1.0}, max_running=None),
    ]
    for task in tasks:
        for _ in range(3):
            team.crontab.run(task)
    wait_for(lambda: len([run for run in team.runs() if run.state.is_final]) == 9, 30, "all are over")
    assert {run.node for run in team.runs(RunState.SUCCEEDED)} == {"gpu"}
    assert most_at_once(team) == 1, "there is one gpu"


def test_every_node_runs_its_share_of_each_occurrence_once(team: Cluster) -> None:
    for name in ("web-1", "web-2", "web-3"):
        team.start_agent(name, lease=30)
    team.wait_until_alive(3)
    team.add("each", "@every 2s", team.entry("$DCRON_NODE"), every_node=True)

    def nodes_of_occurrences() -> list[list[str]]:
        """Return where each occurrence was started."""
        found: dict[str, list[str]] = {}
        for _, occurrence, _, node in team.ledger():
            found.setdefault(occurrence, []).append(node)
        return [sorted(nodes) for nodes in found.values()]

    all_three = ["web-1", "web-2", "web-3"]
    wait_for(lambda: nodes_of_occurrences().count(all_three) >= 3, 30, "three occurrences on all nodes")
    # A busy node may skip a share, because its run before is not over; it never runs one twice.
    assert [nodes for nodes in nodes_of_occurrences() if len(set(nodes)) < len(nodes)] == []


def test_an_event_starts_its_tasks_once_by_hand_and_by_sql(team: Cluster) -> None:
    for name in ("web-1", "web-2"):
        team.start_agent(name, lease=30)
    team.wait_until_alive(2)
    for name in ("one", "two"):
        team.add(name, "@on push", f"read -r line; {team.entry('$line', '$DCRON_PAYLOAD')}")
    Triggers(team.crontab).emit("push", "by-hand", key="1")
    Triggers(team.crontab).emit("push", "again", key="1")
    with team.database.write() as connection:
        connection.execute(text("INSERT INTO events (name, payload) VALUES ('push', 'by-sql')"))
    wait_for(lambda: len(team.ledger()) == 4, 20, "two tasks, two events")
    time.sleep(0.3)  # a fifth one would come within this time
    found = sorted((task, *said) for task, _, _, *said in team.ledger())
    assert found == [
        ("one", "by-hand", "by-hand"),
        ("one", "by-sql", "by-sql"),
        ("two", "by-hand", "by-hand"),
        ("two", "by-sql", "by-sql"),
    ]


def test_a_delayed_task_counts_from_the_end_of_the_run_before(team: Cluster) -> None:
    team.start_agent("web-1", lease=30)
    team.wait_until_alive(1)
    team.add("delayed", "@delay 1s", "sleep 0.5")
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) >= 3, 30, "three runs")
    runs = team.runs(RunState.SUCCEEDED)
    for before, after in itertools.pairwise(runs):
        assert before.finished_at
        assert after.started_at
        assert (after.started_at - before.finished_at).total_seconds() >= 1.0


def test_a_backfill_runs_what_never_ran_one_after_the_other(team: Cluster) -> None:
    task = team.add("daily", "0 9 * * *", job(team, 0.05))
    now = team.crontab.now()
    start = now.replace(year=now.year - 1, month=3, day=1, hour=0)
    made = Triggers(team.crontab).backfill(task, start, start.replace(day=6))
    assert len(made.occurrences) == 5
    for name in ("web-1", "web-2"):
        team.start_agent(name, lease=30)
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) == 5, 30, "five days are caught up")
    assert most_at_once(team) == 1
    assert [run.scheduled_for for run in team.runs(RunState.SUCCEEDED)] == list(made.occurrences)
    assert Triggers(team.crontab).backfill(task, start, start.replace(day=6)).occurrences == []


def test_a_limit_of_the_system_ends_a_command_that_exceeds_it(team: Cluster) -> None:
    team.start_agent("web-1", lease=30)
    team.wait_until_alive(1)
    spin = team.add("spin", FAR, "while :; do :; done", limit={"cpu-time": 1})
    run = team.crontab.run(spin)
    wait_for(lambda: team.crontab.find_run(run.id).state.is_final, 30, "its time is over")
    assert team.crontab.find_run(run.id).state is RunState.FAILED


def test_a_drained_node_takes_nothing_more_and_finishes_what_it_runs(team: Cluster) -> None:
    team.start_agent("web-1", lease=6)
    team.wait_until_alive(1)
    task = team.add("job", FAR, job(team, 2), max_running=None)
    first = team.crontab.run(task)
    wait_for(lambda: len(team.ledger()) == 1, 10, "it has begun")
    Fleet(team.crontab).drain("web-1")
    team.start_agent("web-2", lease=6)
    wait_for(lambda: team.crontab.find_run(first.id).state is RunState.SUCCEEDED, 20, "it has finished")
    second = team.crontab.run(task)
    wait_for(lambda: team.crontab.find_run(second.id).state.is_final, 20, "another has taken it")
    assert team.crontab.find_run(second.id).node == "web-2"
