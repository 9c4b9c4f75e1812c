"""`add`, `at` and `in`."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dcron.schedule import zones
from tests.support.cli import Dcron, real


def test_add_shows_the_name_the_schedule_in_words_and_the_next_three_runs(dcron: Dcron) -> None:
    added = dcron.done("add", "-n", "backup", "-z", "Europe/Berlin", "30 2 * * *", "backup --full")
    assert re.search(r"^added +backup$", added.out, re.MULTILINE)
    assert "02:30" in added.out
    assert "Europe/Berlin" in added.out
    assert len(re.findall(r"02:30:00 CES?T \+0[12]:00 +in ", added.out)) == 3
    assert "shell line" in added.out


def test_add_warns_of_a_doubtful_schedule_on_stderr(sqlite: Dcron) -> None:
    added = sqlite.done("add", "0 9 1 * mon", "report")
    assert "[day-or-weekday]" in added.err
    assert "day-or-weekday" not in added.out


@pytest.mark.slow
def test_add_and_set_warn_of_a_minute_at_which_many_start(dcron: Dcron) -> None:
    for number in range(1, 10):
        assert "same-minute" not in dcron.done("add", "-n", f"a{number}", "0 3 * * *", "x").err
    for words in (["*/5 * * * *"], ["-n", "b", "1 3 * * *"], ["-n", "p", "--queue", "mail", "H 4 * * *"]):
        assert "same-minute" not in dcron.done("add", *words, "x").err
    added = dcron.done("add", "-n", "c", "--queue", "mail", "--json", "0 3 * * *", "x")
    message = re.search(
        r"warning: (10 tasks start at .* 03:00 UTC \(a1, a2, a3, …\); .*) \[same-minute\]", added.err
    )
    assert message
    assert message[1] in dcron("lint").out
    changed = dcron.done("set", "b", "--schedule", "0 3 * * *")
    assert "11 tasks start at" in changed.err
    assert "same-minute" not in dcron.done("set", "b", "--timeout", "5m").err
    often = "* * * * *"  # is no reason to move others, and is not advised to move
    assert "same-minute" not in dcron.done("add", often, "x").err


def test_a_crowd_is_not_counted_to_its_end(dcron: Dcron) -> None:
    lines = "".join(f"#dcron: name=t{number}\n0 3 * * * x\n" for number in range(150))
    dcron.done("import", "-", "--user", "root", stdin=lines.encode())
    assert (
        "101 tasks or more start at" in dcron.done("add", "-n", "a", "--user", "root", "0 3 * * *", "x").err
    )


def test_several_words_are_an_argv_and_their_options_stay_theirs(dcron: Dcron) -> None:
    dcron.done("add", "-n", "copy", "0 9 * * *", "rsync", "-a", "--name", "x", "--delete", "a b", "c")
    task = dcron.done("view", "copy", "--json").json
    assert task["argv"] == ["rsync", "-a", "--name", "x", "--delete", "a b", "c"]
    assert task["command"] == "rsync -a --name x --delete 'a b' c"


def test_echo_keeps_its_n(sqlite: Dcron) -> None:
    added = sqlite.done("add", "@daily", "echo", "-n", "hi", "--json")
    assert "-n follows the command" in added.err
    assert sqlite.done("view", "echo", "--json").json["argv"] == ["echo", "-n", "hi", "--json"]


def test_options_may_stand_between_the_schedule_and_the_command(sqlite: Dcron) -> None:
    sqlite.done("add", "@daily", "--name", "one", "--timeout=5m", "ls", "-l")
    task = sqlite.done("view", "one", "--json").json
    assert (task["argv"], task["timeout"]) == (["ls", "-l"], 300)


def test_options_may_follow_a_command_in_quotes(sqlite: Dcron) -> None:
    sqlite.done("add", "@daily", "echo hi", "--name", "one", "-z", "Asia/Tokyo", "-e", "A=1")
    task = sqlite.done("view", "one", "--json").json
    assert (task["command"], task["argv"], task["timezone"]) == ("echo hi", None, "Asia/Tokyo")
    assert task["env"] == {"A": "1"}


def test_words_after_a_double_dash_are_the_commands(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@daily", "--", "-weird", "--tz", "x")
    assert sqlite.done("view", "one", "--json").json["argv"] == ["-weird", "--tz", "x"]


@pytest.mark.parametrize(
    "words",
    [
        ["add", "-n", "one", "@daily", "--", "/opt/my prog", "--timeout", "5m"],
        ["add", "-n", "one", "--", "@daily", "/opt/my prog", "--timeout", "5m"],
        ["add", "-n", "one", "@daily", "-z", "UTC", "--", "/opt/my prog", "--timeout", "5m"],
        ["at", "-n", "one", "tomorrow 09:00", "--", "/opt/my prog", "--timeout", "5m"],
        ["in", "-n", "one", "1h", "--", "/opt/my prog", "--timeout", "5m"],
    ],
)
def test_a_double_dash_ends_the_options_of_dcron_also_where_the_command_has_spaces(
    sqlite: Dcron, words: list[str]
) -> None:
    added = sqlite.done(*words)
    task = sqlite.done("view", "one", "--json").json
    assert (task["argv"], task["timeout"]) == (["/opt/my prog", "--timeout", "5m"], None)
    assert "follows the command" not in added.err


def test_all_options_are_kept(dcron: Dcron, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("line one\nline two\n")
    words = ["--stdin", f"@{tmp_path / 'input'}", "-e", "A=1", "-e", "B=x=y", "--cwd", "/tmp"]
    words += ["--shell", "/bin/bash", "--user", "nobody", "--timeout", "1h30m", "--max-running", "none"]
    words += [
        "--gap",
        "skip",
        "--fold",
        "both",
        "--not-before",
        "2030-01-01",
        "--not-after",
        "2040-01-01T00:00Z",
    ]
    words += ["--describe", "what it is for", "-z", "Asia/Tokyo"]
    task = dcron.done("add", "-n", "all", *words, "--json", "@daily", "run it").json
    expected = {
        "stdin": "line one\nline two\n",
        "env": {"A": "1", "B": "x=y"},
        "cwd": "/tmp",
        "shell": "/bin/bash",
        "user": "nobody",
        "timeout": 5400,
        "max_running": None,
        "gap": "skip",
        "fold": "both",
        "not_before": "2029-12-31T15:00:00Z",
        "not_after": "2040-01-01T00:00:00Z",
        "describe": "what it is for",
    }
    assert {key: task[key] for key in expected} == expected


POLICIES = [
    *("--overlap", "queue", "--tries", "5", "--backoff", "10s", "--backoff-factor", "1.5"),
    *("--backoff-max", "30m", "--on-lost", "retry", "--deadline", "1h", "--catch-up", "all"),
    *("--catch-up-window", "24h", "--jitter", "0.5s", "--priority", "high", "--queue", "mail"),
    *("--require", "ssd", "--require", "zone=eu-1", "--every-node", "--need", "gpu=1", "--need", "mem=8G"),
    *("--limit", "mem=2G", "--limit", "cpu-time=2m", "--limit", "core=0"),
]
POLICIES_AS_JSON = {
    "overlap": "queue",
    "tries": 5,
    "backoff": 10,
    "backoff_factor": 1.5,
    "backoff_max": 1800,
    "on_lost": "retry",
    "deadline": 3600,
    "catch_up": "all",
    "catch_up_window": 86400,
    "jitter": 0.5,
    "priority": "high",
    "queue": "mail",
    "require": ["ssd", "zone=eu-1"],
    "every_node": True,
    "need": {"gpu": 1, "mem": 8 << 30},
    "limit": {"mem": 2 << 30, "cpu-time": 120, "core": 0},
}


def test_all_policies_are_kept_from_typing_to_storing(dcron: Dcron) -> None:
    task = dcron.done("add", "-n", "all", *POLICIES, "--json", "@daily", "run it").json
    assert {key: task[key] for key in POLICIES_AS_JSON} == POLICIES_AS_JSON
    exported = dcron.done("export").out
    assert dcron.done("import", "-", stdin=exported.encode()).out == "0 added, 0 changed, 1 unchanged\n"
    dcron.done("rm", "-f", "all")
    dcron.done("import", "-", "--user", "root", stdin=exported.encode())
    task = dcron.done("view", "all", "--json").json
    assert {key: task[key] for key in POLICIES_AS_JSON} == POLICIES_AS_JSON


def test_what_is_not_given_has_the_defaults_of_the_contract(dcron: Dcron) -> None:
    task = dcron.done("add", "--json", "@daily", "run it").json
    defaults = {"overlap": "skip", "tries": 1, "backoff": 1, "backoff_factor": 2, "backoff_max": 3600}
    defaults |= {"on_lost": "dead", "deadline": None, "catch_up": "last", "catch_up_window": None}
    defaults |= {"jitter": None, "priority": "normal", "queue": "default", "require": [], "need": {}}
    defaults |= {"every_node": False, "limit": {}}
    assert defaults.keys() == POLICIES_AS_JSON.keys()
    assert {key: task[key] for key in defaults} == defaults


def test_the_policies_are_shown_in_words(sqlite: Dcron) -> None:
    words = ["--tries", "3", "--queue", "mail", "--need", "gpu=1", "--timeout", "30m", "--max-running", "2"]
    added = sqlite.done("add", "-n", "one", *words, "@daily", "run it").out
    message = " ".join(added[added.index("with ") :].split())
    assert message == (
        "with stopped after 30m; up to 2 alive at once; up to 3 tries, 1s apart and doubling, to 1h;"
        " queue mail; needs gpu=1"
    )
    view = sqlite.done("view", "one").out
    for fact in ("tries +up to 3 tries, 1s apart", "queue +mail$", "needs +gpu=1$", "max running +2$"):
        assert re.search(f"^{fact}", view, re.MULTILINE), fact
    assert "overlap" not in view
    assert "with" not in sqlite.done("add", "@daily", "plain").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tries", "2", "--backoff", "5m"], "up to 2 tries, 5m apart"),
        (["--tries", "3", "--backoff", "0s"], "up to 3 tries, one right after the other"),
        (["--tries", "3", "--backoff-factor", "1"], "up to 3 tries, 1s apart"),
        (
            ["--tries", "3", "--backoff-factor", "1.5"],
            "up to 3 tries, 1s apart and each 1.5 times longer, to 1h",
        ),
        (["--backoff", "5m"], "1 try, so its backoff has no effect (--tries N for more)"),
        (["--overlap", "replace"], "a run that comes due while so many are alive replaces the oldest"),
        (["--deadline", "90m"], "skipped when not started within 1h30m"),
        (["--catch-up", "skip"], "missed runs are not caught up on"),
        (["--catch-up", "all"], "all missed runs are caught up on"),
        (["--catch-up-window", "2h"], "the last missed run within 2h is caught up on"),
        (["--jitter", "30s"], "starts spread over 30s"),
        (["--priority", "low"], "priority low"),
        (["--every-node"], "once on every node that can run it"),
        (["--require", "ssd", "--require", "eu"], "requires ssd, eu"),
        (["--limit", "file-size=1536K", "--limit", "files=9"], "limits file-size=1536K, files=9"),
        (["--max-running", "none"], "any number alive at once"),
    ],
)
def test_each_policy_has_its_words(sqlite: Dcron, words: list[str], message: str) -> None:
    assert re.search(
        f"^with +{re.escape(message)}$", sqlite.done("add", *words, "@daily", "x").out, re.MULTILINE
    )


def test_a_lost_run_that_is_to_be_tried_again_gets_tries_and_says_so(sqlite: Dcron) -> None:
    added = sqlite.done("add", "-n", "one", "--on-lost", "retry", "@daily", "x").out
    assert "up to 3 tries, 1s apart and doubling, to 1h; retried when its node dies" in added
    assert re.search("^tries +3: a lost attempt counts; --tries N", added, re.MULTILINE)
    assert sqlite.done("view", "one", "--json").json["tries"] == 3
    given = sqlite.done("add", "--on-lost", "retry", "--tries", "2", "@daily", "x").out
    assert "--tries N" not in given
    refused = sqlite("add", "--on-lost", "retry", "--tries", "1", "@daily", "x")
    assert (refused.code, "needs tries of 2 or more: a lost attempt counts" in refused.err) == (2, True)


@pytest.mark.parametrize("words", [["add", "--after", "a,b", "@daily", "x"], ["add", "--after=a,b", "x"]])
def test_after_as_an_option_explains_itself(sqlite: Dcron, words: list[str]) -> None:
    refused = sqlite(*words)
    assert refused.code == 2
    assert "write '@after a,b' for the schedule" in refused.err


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("@on deploy", "when the event deploy is sent"),
        ("@after dump,copy", "after dump and copy have succeeded"),
        ("@reboot", "when a node starts"),
    ],
)
def test_a_schedule_without_a_clock_shows_what_starts_it(sqlite: Dcron, schedule: str, message: str) -> None:
    for name in ("dump", "copy"):
        sqlite.done("add", "-n", name, "@yearly", "true")
    for shown in (sqlite.done("add", "-n", "one", schedule, "x").out, sqlite.done("view", "one").out):
        assert re.search(f"^when +{message}$", shown, re.MULTILINE)
        assert re.search(f"^next +{message}$", shown, re.MULTILINE)


def test_a_fixed_delay_has_a_next_run_and_no_series(sqlite: Dcron) -> None:
    added = sqlite.done("add", "-z", "Asia/Tokyo", "-n", "one", "@delay 5m", "x").out
    assert re.search("^when +5 minutes after the run before has ended$", added, re.MULTILINE)
    assert len(re.findall(r"JST \+09:00   in ", added)) == 1


def test_json_of_a_task_has_the_keys_of_the_contract(dcron: Dcron) -> None:
    task = dcron.done("add", "--json", "0 9 * * *", "job").json
    keys = "name schedule timezone command enabled paused_reason next_run_at last_run owner version"
    options = (
        "stdin env cwd shell user timeout max_running gap fold not_before not_after except only describe argv"
    )
    assert set(f"{keys} {options}".split()) <= set(task)
    assert (task["enabled"], task["version"], task["last_run"], task["owner"]) == (True, 1, None, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT09:00:00Z", task["next_run_at"])
    assert (task["max_running"], task["timeout"], task["shell"]) == (1, None, "/bin/sh")


def test_a_name_is_made_from_the_command_and_numbered_when_taken(dcron: Dcron) -> None:
    for _ in range(3):
        dcron.done("add", "@daily", "/usr/local/bin/backup.sh --full")
    assert dcron.done("list", "--names").out.split() == ["backup", "backup-2", "backup-3"]


def test_a_chosen_name_that_is_taken_is_refused(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@daily", "true")
    again = dcron("add", "-n", "one", "@daily", "true")
    assert again.code == 1
    assert "'one'" in again.err


def test_the_zone_of_the_machine_or_the_config_file_is_written_out(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "timezone").write_text("America/Nuuk\n")
    monkeypatch.setattr(zones, "TIMEZONE_FILE", tmp_path / "timezone")
    monkeypatch.setenv("TZ", "America/Denver")  # one person's, and no business of a task's
    assert sqlite.done("add", "--json", "@daily", "a").json["timezone"] == "America/Nuuk"
    (tmp_path / "config.toml").write_text('timezone = "Asia/Tokyo"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(tmp_path / "config.toml"))
    assert sqlite.done("add", "--json", "@daily", "b").json["timezone"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    "schedule", ["@reboot", "@every 90s", "@at 2060-01-01T09:00", "0 0 9 * * *", "H 3 * * *"]
)
def test_every_form_of_schedule_can_be_added(sqlite: Dcron, schedule: str) -> None:
    added = sqlite.done("add", "--json", schedule, "job").json
    assert added["schedule"] == schedule
    assert (added["next_run_at"] is None) is (schedule == "@reboot")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("99 * * * *", "minute"),
        ("* 25 * * *", "hour"),
        ("0 0 32 * *", "day"),
        ("0 0 * 13 *", "month"),
        ("0 0 * * 9", "weekday"),
        ("* * *", "field"),
        ("", "empty"),
        ("@dayly", "@daily"),
        ("@every", "@every"),
        ("@every 5 bananas", "duration"),
        ("0 0 30 2 *", "never"),
        ("@at 2001-01-01T00:00", "past"),
        ("@after job", "cannot come after itself"),
        ("@on deploy | @daily", "cannot be combined"),
        ("0 9 * * *\n", "column"),
    ],
)
def test_a_bad_schedule_is_refused_naming_what_is_wrong(sqlite: Dcron, schedule: str, message: str) -> None:
    refused = sqlite("add", "-n", "job", schedule, "job")
    assert refused.code == 2
    assert message in refused.err.lower()
    assert refused.err.startswith("dcron: ")
    assert refused.out == ""
    assert sqlite.done("list", "--json").json == []


def test_a_schedule_without_quotes_is_recognised(sqlite: Dcron) -> None:
    refused = sqlite("add", "*/5", "bin", "etc", "home", "usr", "backup")
    assert (refused.code, "in quotes" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-z", "Europe/Berln"], "Europe/Berlin"),
        (["-z", "Mars/Base"], "not a time zone"),
        (["-n", "a/b"], "name"),
        (["-n", "a\nb"], "name"),
        (["-n", "x" * 101], "name"),
        (["-n", ""], "name"),
        (["-e", "NOVALUE"], "NAME=value"),
        (["-e", "=x"], "NAME=value"),
        (["--timeout", "soon"], "duration"),
        (["--timeout", "0s"], "timeout"),
        (["--gap", "jump"], "--gap"),
        (["--not-before", "someday"], "--not-before"),
        (["--not-after", "2001-01-01"], "never"),
        (["--max-running", "0"], "max-running"),
        (["--max-running", "many"], "none"),
        (["--shell", "bash"], "absolute"),
        (["--cwd", "here"], "absolute"),
        (["--stdin", "@/nowhere/at/all"], "/nowhere/at/all"),
        (["--overlap", "ask"], "--overlap"),
        (["--tries", "0"], "tries: 0 is not valid; give 1 to 1000"),
        (["--tries", "many"], "--tries"),
        (["--backoff", "soon"], "--backoff: 'soon' is not a duration"),
        (["--backoff", "2h"], "backoff: 2h is longer than backoff-max, 1h"),
        (["--backoff-factor", "nan"], "backoff-factor: 'nan' is not a number"),
        (["--backoff-max", "none"], "--backoff-max: 'none' is not a duration"),
        (["--deadline", "0s"], "deadline: 0s is not valid; give a duration longer than nothing"),
        (["--catch-up", "some"], "--catch-up"),
        (["--catch-up-window", "x"], "--catch-up-window: 'x' is not a duration"),
        (["--jitter", "2d"], "jitter"),
        (["--priority", "urgent"], "--priority"),
        (["--queue", "a b"], "queue: 'a b' cannot be a queue's name"),
        (["--require", "a b"], "require: 'a b' is not a tag"),
        (["--need", "gpu"], "--need: 'gpu': write a name and an amount, such as gpu=1"),
        (["--need", "slots=1"], "slots are counted by themselves"),
        (["--limit", "mem=0"], "--limit: mem: give from 1"),
        (["--limit", "ram=1"], "--limit: 'ram' cannot be limited; there are mem"),
        (["--no-such-option"], "there is no option --no-such-option"),
        (["-e", "1A=2"], "begin it with a letter or _"),
        (["--timeout"], "requires"),
    ],
)
def test_a_bad_option_is_refused(sqlite: Dcron, words: list[str], message: str) -> None:
    refused = sqlite("add", *words, "@daily", "job") if words[-1] != "--timeout" else sqlite("add", *words)
    assert refused.code == 2
    assert message.lower() in refused.err.lower()
    assert sqlite.done("list", "--json").json == []


@pytest.mark.parametrize("words", [["add"], ["add", "@daily"], ["add", "@daily", ""], ["add", "@daily", " "]])
def test_a_missing_or_empty_command_is_wrong_usage(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite(*words).code == 2


def test_a_text_that_begins_with_an_at_sign_is_doubled(sqlite: Dcron) -> None:
    assert sqlite.done("add", "--json", "--stdin", "@@home", "@daily", "a").json["stdin"] == "@home"
    assert (
        sqlite.done("add", "--json", "--stdin", "@-", "@daily", "b", stdin=b"typed").json["stdin"] == "typed"
    )


def test_a_file_that_is_not_utf8_is_refused_with_its_place(sqlite: Dcron, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"fine\nno\xff")
    refused = sqlite("add", "--stdin", f"@{tmp_path / 'bad'}", "@daily", "job")
    assert refused.code == 2
    assert "bad:2:3: " in refused.err


def test_a_command_that_is_not_utf8_is_refused(sqlite: Dcron) -> None:
    refused = sqlite("add", "@daily", "echo \udcff")
    assert refused.code == 2
    assert "UTF-8" in refused.err


def test_in_makes_a_task_of_one_run(dcron: Dcron) -> None:
    before = datetime.now(UTC)
    task = dcron.done("in", "1h", "--json", "-n", "later", "echo", "-n", "hi").json
    due = datetime.fromisoformat(task["next_run_at"])
    assert timedelta(hours=1) <= due - before <= timedelta(hours=1, seconds=60)
    assert task["once"] is True
    assert task["argv"] == ["echo", "-n", "hi"]
    assert "later" in dcron.done("list").out


def test_at_takes_a_time_in_the_zone_that_is_named(sqlite: Dcron) -> None:
    task = sqlite.done("at", "--json", "-z", "Asia/Tokyo", "2060-01-01 09:00", "party").json
    assert task["next_run_at"] == "2060-01-01T00:00:00Z"
    result = sqlite.done("at", "-z", "Asia/Tokyo", "2060-01-01 09:00", "party")
    assert "party-2" in result.out
    assert "2060-01-01 09:00:00 JST +09:00" in result.out


@pytest.mark.parametrize(
    ("when", "due", "message"),
    [
        ("2055-03-28 02:30", "2055-03-28T01:00:00Z", "02:30 does not exist on 2055-03-28: runs at 03:00"),
        ("2055-10-31 02:30", "2055-10-31T00:30:00Z", "02:30 comes twice on 2055-10-31: runs the first time"),
        ("2055-10-31 02:30+01:00", "2055-10-31T01:30:00Z", None),
        ("2055-06-01", "2055-05-31T22:00:00Z", None),
    ],
)
def test_at_says_what_a_clock_change_does(sqlite: Dcron, when: str, due: str, message: str | None) -> None:
    added = sqlite.done("at", "-n", "one", "-z", "Europe/Berlin", when, "x").out
    assert message in added if message else "exist" not in added and "twice" not in added
    assert sqlite.done("view", "one", "--json").json["next_run_at"] == due


def test_at_knows_gaps_and_folds(sqlite: Dcron) -> None:
    words = ["-z", "Europe/Berlin", "2055-03-28 02:30", "x"]
    refused = sqlite("at", "--gap", "skip", *words)
    assert (refused.code, "never fires" in refused.err) == (2, True)


def test_a_time_that_at_refuses_is_not_offered(sqlite: Dcron) -> None:
    refused = sqlite("at", "someday", "x").err
    assert "mon 09:00 or +1h" in refused
    assert "now" not in refused


@pytest.mark.parametrize(
    "words",
    [
        ["at", "2001-01-01 09:00", "x"],
        ["at", "today 00:00", "x"],
        ["at", "someday", "x"],
        ["at", "2027-02-30", "x"],
        ["in", "0s", "x"],
        ["in", "soon", "x"],
        ["in", "-5m", "x"],
        ["in", "1h"],
    ],
)
def test_a_time_that_has_passed_or_is_none_is_refused(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite(*words).code == 2
    assert sqlite.done("list", "--json").json == []


@pytest.mark.slow
def test_the_real_command_adds_too(dcron: Dcron) -> None:
    added = real("add", "*/5 * * * *", "ls", "--all", url=dcron.url)
    assert added.code == 0
    assert "ls --all" in added.out
    assert "no agent is running" in added.err


def test_add_and_set_say_what_the_next_clock_changes_do(sqlite: Dcron) -> None:
    message = "clock change Sun 20"
    assert message in sqlite.done("add", "-n", "night", "-z", "Europe/Berlin", "30 2 * * *", "x").err
    assert message in sqlite.done("set", "night", "--gap", "skip").err
    assert message not in sqlite.done("set", "night", "-z", "UTC").err
    assert message not in sqlite.done("add", "-n", "often", "-z", "Europe/Berlin", "*/5 * * * *", "x").err
    hours = sqlite.done("add", "-n", "hours", "-z", "Europe/Berlin", "0 */2 * * *", "x").err
    assert "hours-at-change" in hours
    assert message not in hours  # the warning says it already


def test_add_and_set_warn_of_an_account_that_this_machine_does_not_have(sqlite: Dcron) -> None:
    unknown = "warning: this machine has no account 'no-such-account'"
    assert unknown in sqlite.done("add", "-n", "x", "--user", "no-such-account", "@daily", "x").err
    assert "no account" not in sqlite.done("set", "x", "--timeout", "5m").err
    assert unknown not in sqlite.done("add", "-n", "y", "@daily", "x").err
    assert unknown in sqlite.done("set", "y", "--user", "no-such-account").err


def test_add_and_set_warn_of_a_program_without_a_place(sqlite: Dcron) -> None:
    code = "[relative-path]"
    assert code in sqlite.done("add", "-n", "x", "@daily", "./report").err
    assert code in sqlite.done("add", "@daily", "../report", "now").err
    assert code not in sqlite.done("add", "@daily", "--cwd", "/srv", "./report").err
    assert code not in sqlite.done("set", "x", "--command", "/srv/report").err
    assert code in sqlite.done("set", "x", "--command", "./report").err
