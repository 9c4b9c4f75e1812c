"""`dead`, `retry`, `emit`, `backfill`, and what `runs`, `view` and `list` show about policies."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from dcron.database import open_database
from dcron.model import Block, Definition
from dcron.presentation.humanize import WAITS_FOR
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.tasks import tasks
from tests.support.agents import agent, run_once
from tests.support.cli import Dcron, on_terminal
from tests.support.patience import until
from tests.support.stage import Stage


def first_words(listed: str) -> list[str]:
    """The first column of a table, without its title."""
    return [line.split()[0] for line in listed.splitlines()[1:]]


def names_failed(dcron: Dcron) -> list[str]:
    return dcron.done("list", "--failed", "--names").out.split()


@pytest.mark.slow
def test_dead_letters_are_listed_the_newest_first_and_in_pages(dcron: Dcron) -> None:
    assert "no dead letters" in dcron.done("dead").err
    assert dcron.done("dead", "--json").json == []
    dcron.done("add", "-n", "bad", "--max-running", "none", "@yearly", "exit 7")
    ids = run_once(dcron, "bad", "bad", "bad")
    page = dcron.done("dead", "-n", "2")
    assert first_words(page.out) == [str(ids[2]), str(ids[1])]
    assert "exit 7" in page.out
    assert f"dcron dead --before {ids[1]}" in page.err
    rest = dcron.done("dead", "-n", "2", "--before", str(ids[1]))
    assert (first_words(rest.out), rest.err) == ([str(ids[0])], "")
    listed = dcron.done("dead", "--json").json
    assert [(run["id"], run["dead"]) for run in listed] == [(run_id, True) for run_id in ids[::-1]]
    assert [run["id"] for run in dcron.done("view", "bad", "--json").json["dead_letters"]] == ids[::-1]
    assert f"dcron retry {ids[2]}" in dcron.done("view", "bad").out


@pytest.mark.slow
def test_a_dead_letter_is_dismissed_once(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "bad", "@yearly", "exit 7")
    (run_id,) = run_once(sqlite, "bad")
    assert f"run {run_id} of bad, exit 7" in sqlite.done("dead", "dismiss", str(run_id)).out
    again = sqlite("dead", "dismiss", str(run_id))
    assert (again.code, "no dead letter" in again.err) == (1, True)
    assert sqlite.done("dead", "--json").json == []
    assert sqlite.done("runs", "bad", "--state", "failed", "--json").json[0]["dead"] is False
    assert sqlite("dead", "dismiss", "999").code == 4


@pytest.mark.slow
@pytest.mark.terminal
def test_dismissing_all_asks_on_a_terminal_and_is_refused_elsewhere(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "bad", "--max-running", "none", "@yearly", "exit 7")
    run_once(sqlite, "bad", "bad")
    refused = sqlite("dead", "dismiss", "--all")
    assert (refused.code, "dismiss 2 dead letters" in refused.err, "add -y" in refused.err) == (
        1,
        True,
        True,
    )
    asked = on_terminal("dead", "dismiss", "--all", url=sqlite.url, typed="\n", wait_for="[y/N]")
    assert (asked.code, "nothing was done" in asked.out) == (1, True)
    assert len(sqlite.done("dead", "--json").json) == 2
    assert sqlite.done("dead", "dismiss", "--all", "-f", "--json").json == {"dismissed": 2}
    assert "no dead letters" in sqlite.done("dead", "dismiss", "--all").err


@pytest.mark.slow
def test_dismissing_acts_on_the_database_named_before_it(sqlite: Dcron, tmp_path: Path) -> None:
    sqlite.done("add", "-n", "bad", "@yearly", "exit 7")
    run_once(sqlite, "bad")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    sqlite.done("db", "init", "--db", other)
    sqlite.done("dead", "--db", other, "dismiss", "--all", "-f")
    assert len(sqlite.done("dead", "--json").json) == 1
    own, sqlite.url = sqlite.url, other
    sqlite.done("dead", "--db", own, "dismiss", "--all", "-f")
    sqlite.url = own
    assert sqlite.done("dead", "--json").json == []


@pytest.mark.parametrize("words", [["dismiss"], ["dismiss", "--all", "7"], ["dismiss", "7", "x"]])
def test_dismissing_has_to_say_what(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite("dead", *words).code == 2


@pytest.mark.slow
def test_a_dead_letter_is_tried_again_as_its_task_is_now(dcron: Dcron) -> None:
    dcron.done("add", "-n", "bad", "@yearly", "exit 7")
    (run_id,) = run_once(dcron, "bad")
    dcron.done("set", "bad", "--command", "true")
    retried = dcron.done("retry", str(run_id), "--json")
    message = [retried.json[key] for key in ("trigger", "state", "attempt", "retry_of")]
    assert message == ["retry", "waiting", 2, run_id]
    assert "no agent is running" in retried.err
    assert dcron("retry", str(run_id)).code == 1
    assert dcron("retry", "999").code == 4
    dcron.run_due()
    assert dcron.done("runs", "bad", "--state", "succeeded", "--json").json[0]["retry_of"] == run_id
    assert dcron("retry", str(retried.json["id"])).code == 1
    assert dcron.done("dead", "--json").json == names_failed(dcron) == []


@pytest.mark.slow
def test_failed_lists_whose_last_run_failed(dcron: Dcron, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    dcron.done("add", "-n", "mended", "@yearly", f"test -e {flag}")
    dcron.done("add", "-n", "bad", "@yearly", "exit 7")
    dcron.done("add", "-n", "good", "@yearly", "true")
    first, second, _ = run_once(dcron, "mended", "bad", "good")
    assert names_failed(dcron) == ["bad", "mended"]
    flag.touch()
    run_once(dcron, "mended")
    assert names_failed(dcron) == ["bad"]
    assert str(first) in dcron.done("dead").out  # until it is dismissed
    dcron.done("dead", "dismiss", str(first))
    assert names_failed(dcron) == ["bad"]
    dcron.done("dead", "dismiss", str(second))
    assert names_failed(dcron) == ["bad"]  # its last run has failed nevertheless


def test_failed_pages_through_the_failed_alone(dcron: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        Definition(name=f"task-{number:02}", schedule="@daily", timezone="UTC", command="ls")
        for number in range(30)
    ]
    database = open_database(dcron.url)
    Crontab(database, "tester").import_tasks(lines)
    moment = datetime.now(UTC)
    ended = {"trigger": "manual", "scheduled_for": moment, "due_at": moment, "spec": {}}
    ended |= {"claimed_at": moment, "started_at": moment, "finished_at": moment, "owner": "web-1-00000000"}
    with database.write() as connection:
        for task_id in range(1, 31):
            values = {"task_id": task_id, "task": f"task-{task_id - 1:02}", **ended}
            state = ("failed", "succeeded", "lost")[task_id % 3]
            connection.execute(insert(runs).values({**values, "state": "failed"}))
            connection.execute(insert(runs).values({**values, "state": state}))
    database.close()
    monkeypatch.setattr(tasks, "PAGE", 4)
    expected = [line.name for number, line in enumerate(lines, 1) if number % 3 != 1]
    assert names_failed(dcron) == expected


@pytest.mark.slow
def test_runs_and_view_show_further_attempts(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "flaky", "--tries", "3", "--backoff", "30m", "@yearly", "exit 7")
    run_once(sqlite, "flaky")
    assert "retry 2/3" in sqlite.done("runs", "flaky").out
    assert "retry 2/3: in " in sqlite.done("view", "flaky").out
    (waiting,) = [
        run for run in sqlite.done("view", "flaky", "--json").json["waiting"] if run["attempt"] == 2
    ]
    assert waiting["trigger"] == "retry"
    assert sqlite.done("dead", "--json").json == []


@pytest.mark.slow
def test_an_event_starts_the_tasks_that_wait_for_it(dcron: Dcron, tmp_path: Path) -> None:
    dcron.done("add", "-n", "migrate", "@on deploy", "cat; echo [$DCRON_PAYLOAD]")
    dcron.done("add", "-n", "announce", "@on deploy", "true")
    dcron.done("pause", "announce", "--reason", "holiday")
    (tmp_path / "order").write_text("v1.4")
    emitted = dcron.done("emit", "deploy", "--payload", f"@{tmp_path / 'order'}", "--key", "r1")
    assert "of migrate is due" in emitted.out
    assert "of announce is skipped: paused by " in emitted.out
    assert "holiday" in emitted.out
    assert "no agent is running" in emitted.err
    dcron.run_due()
    assert dcron.done("logs", "migrate").out == "v1.4[v1.4]\n"
    assert "event" in dcron.done("runs", "migrate").out
    again = dcron.done("emit", "deploy", "--key", "r1")
    assert (again.out, "was sent before" in again.err) == ("", True)
    assert dcron.done("emit", "deploy", "--key", "r1", "--json").json == {
        "event": None,
        "runs": [],
        "duplicate": True,
    }
    other = dcron.done("emit", "deploy", "--key", "r2", "--json").json
    assert (other["duplicate"], other["event"]["name"], other["event"]["key"]) == (False, "deploy", "r2")
    assert [(run["task"], run["state"]) for run in other["runs"]] == [
        ("migrate", "waiting"),
        ("announce", "skipped"),
    ]
    assert all(run["event"] == other["event"]["id"] for run in other["runs"])


def test_an_event_without_tasks_is_accepted_and_said_so(dcron: Dcron) -> None:
    emitted = dcron.done("emit", "deploy")
    assert (emitted.out, emitted.err) == ("", "no task waits for this event\n")


@pytest.mark.parametrize(
    "words", [["a b"], [""], ["deploy", "--key", ""], ["deploy", "--payload", "@/no/such"], []]
)
def test_a_bad_event_is_refused(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite("emit", *words).code == 2


SPAN = ("--from", "2020-01-01T00:00", "--until", "2020-01-01T05:00")


def test_a_backfill_makes_up_for_what_never_succeeded(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "-z", "Asia/Tokyo", "0 * * * *", "true")
    would = dcron.done("backfill", "report", *SPAN, "--dry-run")
    assert would.out.startswith("would make  6 runs of report\nfirst       Wed 2020-01-01 00:00:00 JST")
    assert "last        Wed 2020-01-01 05:00:00 JST" in would.out
    assert len(dcron.done("runs", "report", "--json").json) == 1  # its next run
    made = dcron.done("backfill", "report", *SPAN, "-y")
    assert made.out.startswith("made   6 runs of report\n")
    assert "no agent is running" in made.err
    found = dcron.done("runs", "report", "--state", "waiting", "--json").json
    assert [run["scheduled_for"] for run in found if run["trigger"] == "backfill"] == [
        f"2019-12-31T{hour}:00:00Z" for hour in range(20, 14, -1)
    ]
    again = dcron.done("backfill", "report", *SPAN, "--json").json  # makes none: no question
    assert (again["runs"], again["there_already"], again["occurrences"]) == (0, 6, [])
    assert again["from"] == "2019-12-31T15:00:00Z"


def test_a_backfill_of_several_runs_asks(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "-z", "UTC", "0 * * * *", "true")
    dcron.done("run", "report")
    dcron.run_due()
    before = dcron.done("runs", "--json").json
    refused = dcron("backfill", "report", *SPAN)
    assert refused.code == 1
    question = (
        r"make 6 runs of report, for Wed 2020-01-01 00:00:00 UTC to Wed 2020-01-01 05:00:00 UTC;"
        r" no running agent can take them now; 6 are from before the task existed \(.* UTC\):"
        r" nothing was done: there is no terminal to ask on; add -y\n"
    )
    assert re.fullmatch(f"dcron: {question}", refused.err), refused.err
    assert dcron.done("runs", "--json").json == before
    dcron.done("backfill", "report", "--from", "2020-01-01", "--to", "2020-01-01")  # one run: no question
    stage = Stage(dcron.url)
    stage.node("web-1", slots=4)
    stage.database.close()
    dcron.done("set", "report", "--max-running", "3")
    would = dcron.done("backfill", "report", *SPAN, "--dry-run")
    assert re.search(r"^takes +3 at once take about \d+s \(p95 [\d.]+s\)$", would.out, re.MULTILINE)
    assert "older       5 are from before the task existed" in would.out


def test_the_waiting_runs_of_a_task_or_of_a_backfill_are_cancelled(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "-z", "UTC", "0 * * * *", "true")
    dcron.done("backfill", "report", *SPAN, "-y")
    dcron.done("backfill", "report", "--from", "2021-01-01T00:00", "--to", "2021-01-01T02:00", "-y")
    second, first = (each["batch"] for each in dcron.done("history", "report", "--json").json[:2])
    refused = dcron("cancel", "report")
    assert (refused.code, "cancel 9 waiting runs of report: nothing was done" in refused.err) == (1, True)
    assert dcron("cancel", "report", "3").code == 2
    assert dcron.done("undo", "--batch", second, "--dry-run").out == (
        "would cancel 3 waiting runs of report\nnothing was changed\n"
    )
    assert dcron.done("undo", "--batch", second, "-y").out == "cancelled  3 waiting runs of report\n"
    again = dcron("undo", "--batch", second, "-y")
    assert (again.code, "no run of report waits" in again.err) == (1, True)
    assert dcron.done("undo", "--batch", first, "--dry-run", "--json").json["cancelled_count"] == 6
    cancelled = dcron.done("cancel", "--batch", first, "-y", "--json").json
    assert {(run["state"], run["trigger"]) for run in cancelled} == {("cancelled", "backfill")}
    dcron.done("run", "report")
    assert dcron.done("cancel", "report", "-y").out == "cancelled  1 waiting run of report\n"
    left = dcron.done("runs", "report", "--state", "waiting", "--json").json
    assert [run["trigger"] for run in left] == ["schedule"]
    assert dcron("cancel", "report", "-y").code == 1
    assert dcron("cancel", "--batch", dcron.done("history", "--json").json[-1]["batch"]).code == 2


def test_active_runs_of_a_task_are_stopped_only_on_request(dcron: Dcron) -> None:
    stage = Stage(dcron.url)
    dcron.done("add", "-n", "report", "-z", "UTC", "0 * * * *", "true")
    run = dcron.done("run", "report", "--json").json["id"]
    node = stage.node("web-1")
    stage.sql(
        "UPDATE runs SET state = 'running', owner = :node, claimed_at = due_at,"
        " started_at = due_at WHERE id = :id",
        node=node,
        id=run,
    )
    refused = dcron("cancel", "report", "-y")
    assert (refused.code, "1 run active: --active stops them" in refused.err) == (1, True)
    dcron.done("run", "report")
    stage.database.close()
    asked = dcron("cancel", "report", "--active")
    assert "stop 1 active run of report and cancel 1 waiting run" in asked.err
    done = dcron.done("cancel", "report", "--active", "-y").out
    assert "cancelled  1 waiting run of report" in done
    assert f"cancelling  run {run} of report" in done


def test_a_name_retries_the_dead_letters_of_its_task(dcron: Dcron) -> None:
    dcron.done("add", "-n", "fail", "--max-running", "none", "@yearly", "false")
    dcron.done("run", "fail")
    dcron.done("run", "fail")
    dcron.run_due()
    refused = dcron("retry", "fail")
    assert (refused.code, "retry 2 dead letters of fail: nothing was done" in refused.err) == (1, True)
    assert len(dcron.done("retry", "fail", "-y", "--json").json) == 2
    assert dcron("retry", "fail").code == 1


def test_undo_of_a_name_looks_at_the_newest_entry_of_its_history(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "0 * * * *", "true")
    dcron.done("run", "report")
    refused = dcron("undo", "report", "-y")
    assert refused.code == 1
    assert "the last entry of report is change 2 (run 2), which is no change of the task" in refused.err
    assert "`dcron undo --change 1` undoes the change before it (add)" in refused.err
    dcron.done("backfill", "report", *SPAN, "-y")
    assert "`dcron undo --change 3` cancels what waits of it" in dcron("undo", "report").err
    dcron.done("set", "report", "--tries", "2")
    asked = dcron("undo", "report")
    assert asked.out.startswith("would change  report\n")
    assert "undo change 4 (change report): nothing was done: there is no terminal" in asked.err
    dcron.done("undo", "report", "-y")


def test_a_backfill_waits_during_a_pause_and_goes_on(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "0 * * * *", "true")
    dcron.done("backfill", "report", *SPAN, "-y")
    dcron.done("pause", "report")
    dcron.done("resume", "report")
    found = dcron.done("runs", "report", "--json").json
    assert {run["state"] for run in found if run["trigger"] == "backfill"} == {"waiting"}


def test_a_backfill_of_a_paused_task_says_that_it_waits(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "report", "0 * * * *", "true")
    sqlite.done("pause", "report")
    assert "until it is resumed" in sqlite.done("backfill", "report", *SPAN, "-y").err


def test_a_backfill_counts_back_from_now(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "report", "@every 1h", "true")
    would = sqlite.done("backfill", "report", "--from", "5h", "--to", "now", "--dry-run", "--json").json
    assert (would["runs"], would["dry_run"]) == (5, True)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["report"], 2, "--since TIME"),
        (["report", "--from", "2020-01-02", "--to", "2020-01-01"], 2, "before --from"),
        (["report", "--from", "whenever", "--to", "now"], 2, "whenever"),
        (["report", "--from", "2000-01-01", "--to", "now"], 1, "10,000"),
        (["deploy", "--from", "2020-01-01", "--to", "now"], 2, "no occurrences"),
        (["nobody", "--from", "2020-01-01", "--to", "now"], 4, "nobody"),
    ],
)
def test_a_wrong_backfill_is_refused(sqlite: Dcron, words: list[str], code: int, message: str) -> None:
    sqlite.done("add", "-n", "report", "0 * * * *", "true")
    sqlite.done("add", "-n", "deploy", "@on deploy", "true")
    refused = sqlite("backfill", *words)
    assert (refused.code, message in refused.err) == (code, True), refused
    assert refused.out == ""


def test_what_is_held_back_says_why(dcron: Dcron) -> None:
    dcron.done("add", "-n", "report", "@yearly", "true")
    dcron.done("backfill", "report", "--from", "2015-01-01", "--to", "2024-01-01", "-y")
    listed = dcron.done("runs", "report", "-n", "50").out
    assert listed.count("backfill") == 10
    assert listed.count(WAITS_FOR[Block.LIMIT]) == 9
    shown = dcron.done("view", "report").out
    assert WAITS_FOR[Block.LIMIT] in shown
    assert "and 5 more: dcron runs report --state waiting" in shown
    assert len(dcron.done("view", "report", "--json").json["waiting"]) == 11
    assert set(WAITS_FOR) == set(Block)


def test_what_waits_in_a_paused_task_is_not_late(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "flaky", "--tries", "3", "--backoff", "0s", "@yearly", "exit 7")
    sqlite.done("add", "-n", "report", "@yearly", "true")
    sqlite.done("backfill", "report", "--from", "2020-01-01", "--to", "2020-01-01")
    database = open_database(sqlite.url)
    with database.write() as connection:
        held = runs.update().where(runs.c.task == "report", runs.c.trigger == "backfill")
        connection.execute(held.values(blocked="paused", due_at=datetime.now(UTC) - timedelta(hours=1)))
    database.close()
    sqlite.done("pause", "report")
    (row,) = [line for line in sqlite.done("list").out.splitlines() if line.startswith("report")]
    assert row.split()[3:] == ["paused"]


@pytest.mark.slow
def test_the_diamond_runs_once_a_flow_and_goes_on_after_a_retry(dcron: Dcron, tmp_path: Path) -> None:
    dcron.done("add", "-n", "extract", "@yearly", "true")
    for name in ("clean", "join"):
        dcron.done("add", "-n", name, "@after extract", "true")
    dcron.done("add", "-n", "stats", "@after extract", f"test -e {tmp_path / 'flag'}")
    dcron.done("add", "-n", "load", "@after clean,join,stats", "true")
    with agent(dcron):
        flow = dcron.done("run", "extract", "--json").json["id"]

        def flowing() -> dict[str, tuple[str, str | None]]:
            listed = dcron.done("runs", "--flow", str(flow), "--json").json
            return {run["task"]: (run["state"], run["reason"]) for run in reversed(listed)}

        until(lambda: len(flowing()) == 5 and all(run[0] != "running" for run in flowing().values()))
        failed = dcron.done("runs", "stats", "--state", "failed", "--json").json[0]["id"]
        assert flowing()["load"] == ("skipped", f"stats failed (run {failed})")
        assert f"after, flow {flow}" in dcron.done("runs", "--flow", str(flow)).out
        (tmp_path / "flag").touch()
        dcron.done("retry", str(failed))
        until(lambda: flowing()["load"][0] == "succeeded")
    listed = dcron.done("runs", "--flow", str(flow), "--state", "succeeded", "--json").json
    assert sorted(run["task"] for run in listed) == ["clean", "extract", "join", "load", "stats"]
    unknown = dcron("runs", "--flow", "999999")
    assert (unknown.code, unknown.out) == (4, "")
    assert "there is no flow 999999" in unknown.err
