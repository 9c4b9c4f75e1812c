"""`run`, `runs`, `cancel` and `logs`, with a real agent."""

import json
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from dcron.database import open_database
from dcron.services.crontab import Crontab
from dcron.store.runs import output
from dcron.values.lists import Chunk
from tests.support.agents import agent
from tests.support.cli import DCRON, Dcron, on_terminal, real
from tests.support.patience import until

RUN_KEYS = (
    "id task state reason trigger attempt scheduled_for due_at claimed_at started_at finished_at owner node"
    " exit_code signal duration retry_of dead queue blocked expires_at flow event refused_by trial"
)


def test_run_makes_a_due_run_and_says_that_no_agent_is_there(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    answer = dcron.done("run", "one", "--json")
    assert "no agent is running" in answer.err
    assert set(RUN_KEYS.split()) <= set(answer.json)
    found = [answer.json[key] for key in ("state", "trigger", "attempt", "owner", "node", "dead", "duration")]
    assert found == ["waiting", "manual", 1, None, None, False, None]


def test_runs_lists_the_newest_first(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    ids = [dcron.done("run", "one", "--json").json["id"] for _ in range(3)]
    listed = dcron.done("runs", "one", "--json", "-n", "3").json
    assert [run["id"] for run in listed] == ids[::-1]
    assert dcron.done("runs", "--state", "waiting,claimed", "--json", "-n", "1").json[0]["id"] == ids[-1]
    assert dcron.done("runs", "--state", "failed", "--state", "lost", "--json").json == []
    assert dcron.done("runs", "--since", "1h", "--json", "-n", "1").json
    assert "FOR (" in dcron.done("runs").out.splitlines()[0]


@pytest.mark.parametrize(
    "words",
    [["--state", "happy"], ["--since", "whenever"], ["-n", "0"], ["-n", "few"], ["a b"]],
)
def test_runs_refuses_what_it_does_not_know(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite("runs", *words).code == 2


def test_runs_pages_through_many(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    database = open_database(sqlite.url)
    crontab = Crontab(database, "tester")
    task = crontab.get("one")
    for _ in range(5):
        crontab.run(task)
    database.close()
    from dcron.cli.output import run_table

    pytest.MonkeyPatch().setattr(run_table, "PAGE", 2)
    assert len(sqlite.done("runs", "--json").json) == 6
    assert len(sqlite.done("runs", "--json", "-n", "3").json) == 3


@pytest.mark.parametrize("what", ["nobody", "17"])
def test_an_unknown_task_or_run_is_4(dcron: Dcron, what: str) -> None:
    for words in (
        ["run", what],
        ["runs", what],
        ["logs", what],
        ["view", what],
        ["pause", what],
        ["rm", what],
    ):
        assert dcron(*words).code == 4, words
    assert dcron("cancel", "17").code == 4
    assert dcron("cancel", "x").code == 4


def test_a_waiting_run_is_cancelled_at_once(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    run = dcron.done("run", "one", "--json").json
    cancelled = dcron.done("cancel", str(run["id"]), "--json").json
    assert (cancelled["state"], "cancelled by" in cancelled["reason"]) == ("cancelled", True)
    assert dcron("cancel", str(run["id"])).code == 1


@pytest.mark.slow
@pytest.mark.terminal
def test_waiting_for_a_run_exits_as_the_command_did(dcron: Dcron, tmp_path: Path) -> None:
    commands = {"fine": "true", "seven": "exit 7", "killed": "kill -TERM $$", "slow": "sleep 60"}
    for name, command in commands.items():
        dcron.done("add", "-n", name, "@yearly", command)
    dcron.done("add", "-n", "reader", "--stdin", "from the task", "@yearly", 'cat; echo "[$DCRON_PAYLOAD]"')
    (tmp_path / "payload").write_text("from a file")
    with agent(dcron):
        assert dcron("run", "--wait", "fine").code == 0
        seven = dcron("run", "--wait", "seven")
        assert (seven.code, "failed on web-1" in seven.out, "exit 7" in seven.out) == (7, True, True)
        assert dcron("run", "--wait", "killed", "--json").code == 128 + 15
        assert dcron("run", "--wait", "reader", "--payload", f"@{tmp_path / 'payload'}").code == 0
        assert dcron.done("logs", "reader").out == "from a file[from a file]\n"
        assert dcron("run", "--wait", "reader").code == 0
        assert dcron.done("logs", "reader").out == "from the task[]\n"
        assert dcron("run", "--wait", "reader", "--payload", "").code == 0
        assert dcron.done("logs", "reader").out == "[]\n"

        first = dcron.done("run", "slow", "--json").json["id"]
        until(lambda: dcron.done("runs", "slow", "--state", "running", "--json").json)
        overlapping = dcron("run", "--wait", "slow")
        assert (overlapping.code, "overlap" in overlapping.out) == (1, True)
        task = dcron.done("view", "slow", "--json").json
        assert task["owner"].startswith("web-1-")
        assert "running" in dcron.done("list").out
        refused = dcron("cancel", str(first))
        assert (refused.code, "add -y" in refused.err) == (1, True)
        asked = on_terminal("cancel", str(first), url=dcron.url, typed="\n", wait_for="[y/N]")
        assert (asked.code, "nothing was done" in asked.out) == (1, True)
        assert "asked to stop it" in dcron.done("cancel", "-f", str(first)).out
        stopped = until(lambda: dcron.done("runs", "slow", "--state", "cancelled", "--json").json)[0]
        assert stopped["id"] == first
        assert dcron("logs", "-f", str(first)).code == 1


@pytest.mark.slow
def test_logs_follow_a_run_until_its_end_and_exit_as_it_did(dcron: Dcron) -> None:
    dcron.done(
        "add", "-n", "talker", "@yearly", "echo one; sleep 0.5; echo two >&2; sleep 0.5; printf three; exit 5"
    )
    with agent(dcron):
        run_id = dcron.done("run", "talker", "--json").json["id"]
        followed = dcron("logs", "-f", "talker")
        assert (followed.code, followed.out) == (5, "one\ntwo\nthree")
        assert f"run {run_id} of talker: exit 5" in followed.err
        again = dcron("logs", "-f", str(run_id), "--json")
        chunks = [json.loads(line) for line in again.out.splitlines()]
        assert "".join(chunk["text"] for chunk in chunks) == "one\ntwo\nthree"
        assert [chunk["stream"] for chunk in chunks] == ["out", "err", "out"]
        assert {chunk.pop("type") for chunk in chunks} == {"output"}
        assert dcron.done("logs", str(run_id), "--json").json == chunks
        assert dcron.done("logs", str(run_id)).code == 0


@pytest.mark.slow
def test_logs_of_a_run_that_could_not_start_say_why(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "--cwd", "/no/such/place", "@yearly", "true")
    run_id = dcron.done("run", "one", "--json").json["id"]
    dcron.run_due()
    message = (
        f"run {run_id} of one: exit 126: could not be started: cannot enter the directory '/no/such/place'"
    )
    shown = dcron.done("logs", "one")
    assert (shown.out, shown.err.startswith(message)) == ("", True)
    followed = dcron("logs", "-f", "one")
    assert (followed.code, followed.err.startswith(message)) == (126, True)


@pytest.mark.slow
def test_logs_of_a_run_that_failed_by_itself_are_its_output_alone(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "echo hi; exit 3")
    sqlite.done("run", "one")
    sqlite.run_due()
    shown = sqlite.done("logs", "one")
    assert (shown.out, shown.err) == ("hi\n", "")


@pytest.mark.parametrize("words", [["runs", "--flow"], ["run", "--like"]])
def test_a_run_is_named_by_its_number(dcron: Dcron, words: list[str]) -> None:
    refused = dcron(*words, "backup")
    assert (refused.code, "'backup' is not the number of a run; `dcron runs` shows" in refused.err) == (
        2,
        True,
    )
    assert dcron(*words, "9" * 40).code == 4


def test_runs_of_a_task_without_a_name_are_wrong_usage(sqlite: Dcron) -> None:
    assert sqlite("runs", "").code == 2


def test_logs_of_a_task_that_has_not_run_is_4(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    assert dcron("logs", "one").code == 4
    assert dcron("logs", "-f", "one").code == 4


def printed(dcron: Dcron, *pieces: tuple[int, str, bytes]) -> int:
    """A run with this output; its id."""
    dcron.done("add", "-n", "one", "@yearly", "true")
    run_id: int = dcron.done("run", "one", "--json").json["id"]
    database = open_database(dcron.url)
    with database.write() as connection:
        now = database.now(connection)
        output.append(
            connection,
            database,
            [Chunk(run_id, offset, stream, now, data) for offset, stream, data in pieces],
        )
    database.close()
    return run_id


HOSTILE = b"\x1b]52;c;AAAA\x07safe \x1b[31mred\x1b[0m\r\n\xff\x00\x9b2J 10%\r 99%\r100%\nlast"


@pytest.mark.slow
def test_piped_logs_are_the_bytes_themselves(dcron: Dcron) -> None:
    run_id = printed(dcron, (0, "out", HOSTILE[:20]), (20, "err", HOSTILE[20:]))
    piped = subprocess.run([DCRON, "logs", str(run_id), "--db", dcron.url], capture_output=True, check=True)
    assert piped.stdout == HOSTILE


@pytest.mark.terminal
def test_logs_on_a_terminal_are_inert_unless_raw(sqlite: Dcron) -> None:
    run_id = str(printed(sqlite, (0, "out", HOSTILE)))
    shown = on_terminal("logs", run_id, url=sqlite.url).out
    assert shown == "safe red\n100%\nlast\n"
    raw = on_terminal("logs", run_id, "--raw", url=sqlite.url).out
    assert "\x1b]52;c;AAAA\x07" in raw


@pytest.mark.terminal
def test_a_gap_in_the_output_is_not_mistaken_for_output(sqlite: Dcron) -> None:
    run_id = printed(sqlite, (0, "out", b"head\n"), (1_000_005, "out", b"tail\n"))
    piped = real("logs", str(run_id), url=sqlite.url)
    assert piped.out == "head\ntail\n"
    assert "1,000,000 bytes in the middle were not kept" in piped.err
    shown = on_terminal("logs", str(run_id), url=sqlite.url).out
    assert shown == "head\n[1,000,000 bytes in the middle were not kept]\ntail\n"


@pytest.mark.terminal
def test_letters_and_lines_that_span_chunks_are_put_together(sqlite: Dcron) -> None:
    data = "grüße, 世界\n".encode()
    pieces = [(position, "out", data[position : position + 1]) for position in range(len(data))]
    run_id = printed(sqlite, *pieces)
    assert on_terminal("logs", str(run_id), url=sqlite.url).out == "grüße, 世界\n"


@pytest.mark.slow
def test_times_in_json_are_utc_with_a_z(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "-z", "Asia/Tokyo", "@yearly", "true")
    dcron.done("run", "one")
    dcron.run_due()
    run = dcron.done("runs", "one", "--state", "succeeded", "--json").json[0]
    for key in ("scheduled_for", "due_at", "claimed_at", "started_at", "finished_at"):
        assert run[key].endswith("Z")
        assert datetime.fromisoformat(run[key])
    assert isinstance(run["duration"], int | float)
    assert (run["exit_code"], run["node"]) == (0, "web-1")


@pytest.mark.slow
def test_waiting_for_a_run_on_every_node_waits_for_all_of_them(dcron: Dcron) -> None:
    command = "case $DCRON_NODE in web-1) exit 0;; *) sleep 1; exit 7; esac"
    dcron.done("add", "-n", "everywhere", "--every-node", "@yearly", command)
    with agent(dcron, "web-1"), agent(dcron, "web-2"):
        ended = dcron("run", "--wait", "everywhere")
        assert ended.code == 7
        assert sorted(line.split("everywhere ")[1].split(" after")[0] for line in ended.out.splitlines()) == [
            "failed on web-2",
            "succeeded on web-1",
        ]
        shown = dcron("run", "--wait", "everywhere", "--json")
        assert (shown.code, shown.json["node"], shown.json["exit_code"]) == (7, "web-2", 7)
