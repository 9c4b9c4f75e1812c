"""Verbs under other names, one run shown whole, lists in other orders, and names that no task may get."""

import pytest

from dcron import __version__
from dcron.database import open_database
from tests.support.agents import run_once
from tests.support.cli import Dcron


def test_words_of_other_tools_are_understood(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "true")
    assert sqlite.done("ls", "--names").out == sqlite.done("list", "--names").out == "one\n"
    assert sqlite.done("show", "one", "--json").json["name"] == "one"
    assert sqlite.done("version").out == f"dcron {__version__}\n"
    assert sqlite.done("help").out == sqlite.done("--help").out
    assert sqlite.done("help", "run").out == sqlite.done("run", "--help").out
    assert sqlite.done("help", "dead", "dismiss").out == sqlite.done("dead", "dismiss", "-h").out
    assert sqlite.done("delete", "-f", "one").out == "removed  one\n"
    assert sqlite("delete", "-f", "one").code == 4
    assert sqlite("help", "nothing").code == 2


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("status", "dcron list"),
        ("start", "dcron run one"),
        ("stop", "dcron cancel RUN"),
        ("enable", "dcron resume one"),
        ("disable", "dcron pause one"),
    ],
)
def test_words_that_may_mean_several_verbs_name_them(sqlite: Dcron, word: str, verb: str) -> None:
    refused = sqlite(word, "one")
    assert (refused.code, f"there is no verb '{word}'" in refused.err, verb in refused.err) == (2, True, True)


@pytest.mark.slow
@pytest.mark.parametrize("show", [["view", "--run"], ["runs", "--id"]])
def test_one_run_is_shown_whole(dcron: Dcron, show: list[str]) -> None:
    words = ["--tries", "2", "--backoff", "0s", "-e", "LEVEL=9", "@yearly", "echo hi; exit 3"]
    dcron.done("add", "-n", "bad", *words)
    run_id = int(dcron.done("run", "bad", "--payload", "p1", "--json").json["id"])
    dcron.run_due()
    dcron.run_due()
    shown = dcron.done(*show, str(run_id)).out
    for fact in ("run ", "task      bad", "exit 3", "LEVEL=9", "echo hi; exit 3", "p1", "3 bytes"):
        assert fact in shown
    assert f"retried   as run {run_id + 1}, exit 3" in shown
    run = dcron.done(*show, str(run_id), "--json").json
    assert (run["id"], run["state"], run["retried_as"]) == (run_id, "failed", run_id + 1)
    assert (run["payload"], run["output_bytes"], run["spec"]["env"]) == ("p1", 3, {"LEVEL": "9"})
    retry = dcron.done(*show, str(run_id + 1)).out
    assert f"2, after run {run_id}" in retry
    assert f"dcron retry {run_id + 1}" in retry
    assert dcron(*show, "999").code == 4
    assert dcron(*show, "x").code == (4 if show[0] == "runs" else 2)


def test_one_run_is_shown_alone(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    assert sqlite("view").code == 2
    assert sqlite("view", "one", "--run", "1").code == 2


@pytest.mark.slow
def test_a_list_is_sorted_and_shows_the_commands(dcron: Dcron) -> None:
    for name, schedule in (("a", "0 0 1 1 *"), ("b", "* * * * *"), ("c", "0 0 * * *")):
        dcron.done("add", "-n", name, schedule, f"echo {name}")
    dcron.done("pause", "c")

    def names(*words: str) -> list[str]:
        return dcron.done("list", "--names", *words).out.split()

    assert names() == names("--sort", "name") == ["a", "b", "c"]
    assert names("--reverse") == ["c", "b", "a"]
    assert names("--sort", "next")[0] == "b"
    run_once(dcron, "a")
    assert names("--sort", "last")[0] == "a"
    assert [task["name"] for task in dcron.done("list", "--sort", "schedule", "--json").json] == [
        "b",
        "c",
        "a",
    ]
    refused = dcron("list", "--sort", "bogus")
    assert (refused.code, "give name, next, last, state, schedule" in refused.err) == (2, True)
    wide = dcron.done("list", "-o", "wide").out.splitlines()
    assert wide[0].endswith("COMMAND")
    assert wide[1].endswith("echo a")
    assert "COMMAND" not in dcron.done("list").out


@pytest.mark.slow
def test_a_success_clears_failed(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "exit 7")
    (dead,) = run_once(dcron, "one")
    assert dcron.done("list", "--failed", "--names").out == "one\n"
    dcron.done("set", "one", "--command", "true")
    run_once(dcron, "one")
    assert dcron.done("list", "--failed", "--names").out == ""
    assert [run["id"] for run in dcron.done("dead", "one", "--json").json] == [dead]


@pytest.mark.slow
def test_dead_letters_of_a_task_are_listed_and_dismissed(dcron: Dcron) -> None:
    for name in ("one", "other"):
        dcron.done("add", "-n", name, "@yearly", "exit 7")
    ids = [*run_once(dcron, "one", "other"), *run_once(dcron, "one")]
    assert [run["id"] for run in dcron.done("dead", "one", "--json").json] == [ids[2], ids[0]]
    assert dcron.done("dead", "--json", "on", "-n", "9").json == dcron.done("dead", "one", "--json").json
    more = dcron.done("dead", "-n", "1", "one")
    assert f"dcron dead one --before {ids[2]}" in more.err
    refused = dcron("dead", "dismiss", "one")
    assert (refused.code, "dismiss 2 dead letters of one" in refused.err) == (1, True)
    assert dcron("dead", "dismiss", "-f", "one", "nothing").code == 4
    assert dcron("dead", "dismiss", str(ids[0]), "999").code == 4
    assert len(dcron.done("dead", "--json").json) == 3
    dcron.done("rm", "-f", "one")
    assert dcron.done("dead", "dismiss", "-f", "one", "--json").json == {"dismissed": 2}
    assert [run["id"] for run in dcron.done("dead", "--json").json] == [ids[1]]
    assert dcron("dead", "nothing").code == 4


@pytest.mark.parametrize("name", ["123", "-x", ".hidden", "."])
def test_new_tasks_get_no_such_name(sqlite: Dcron, name: str) -> None:
    sqlite.done("add", "-n", "one", "@daily", "true")
    for words in (["add", f"--name={name}", "@daily", "true"], ["set", "one", f"--name={name}"]):
        refused = sqlite(*words)
        assert (refused.code, f"{name!r} cannot be a new name" in refused.err) == (2, True)
    file = f"#dcron: name={name}\n@daily true\n".encode()
    assert sqlite("import", "-", stdin=file).code == 2
    assert sqlite.done("list", "--names").out == "one\n"


@pytest.mark.slow
def test_tasks_that_have_such_a_name_go_on_working(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "echo hi")
    database = open_database(dcron.url)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE crontab SET name = '123'")
    database.close()
    dcron.done("set", "123", "--tries", "2")
    dcron.done("run", "123")
    dcron.run_due()
    assert dcron.done("runs", "123", "--state", "succeeded", "--json").json
    dcron.done("set", "123", "-n", "one")


def test_a_name_made_of_a_command_is_one_that_tasks_may_get(sqlite: Dcron) -> None:
    assert sqlite.done("add", "--json", "@daily", "/opt/77").json["name"] == "task-77"
    assert sqlite.done("add", "--json", "@daily", "/opt/.hidden/-x").json["name"] == "x"


@pytest.mark.slow
def test_runs_are_cancelled_and_tried_again_by_several_numbers(dcron: Dcron) -> None:
    for name in ("one", "two"):
        dcron.done("add", "-n", name, "@yearly", "exit 7")
    ids = [str(dcron.done("run", name, "--json").json["id"]) for name in ("one", "two")]
    assert dcron("cancel", ids[0], "999").code == 4
    assert dcron.done("runs", "--state", "cancelled", "--json").json == []
    cancelled = dcron.done("cancel", *ids, "--json").json
    assert [run["state"] for run in cancelled] == ["cancelled"] * 2
    again = dcron("cancel", *ids)
    assert (again.code, "nothing was cancelled" in again.err) == (1, True)
    assert dcron("retry", ids[0], "999").code == 4
    retried = dcron.done("retry", *ids, "--json").json
    assert [run["retry_of"] for run in retried] == list(map(int, ids))
