"""`import` and `export`."""

from pathlib import Path

import pytest

from dcron.sources import FORMATS, Format, parse, write
from tests.support.cli import Dcron

CRONTAB = """\
# nightly copy
30 2 * * * /usr/local/bin/backup --full
CRON_TZ=Asia/Tokyo
MAILTO=ops@example.com
0 9 * * mon-fri echo good morning%from stdin
"""


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """A crontab file."""
    path = tmp_path / "crontab"
    path.write_text(CRONTAB)
    return path


def test_import_adds_changes_and_leaves_the_rest(dcron: Dcron, crontab: Path) -> None:
    first = dcron.done("import", str(crontab), "--user", "root", "--json").json
    assert (sorted(first["added"]), first["changed"], first["unchanged"]) == (
        ["backup", "echo-good-morning"],
        [],
        [],
    )
    assert first["warnings"][0]["line"] == 4
    again = dcron.done("import", str(crontab), "--user", "root", "--json").json
    assert (again["added"], again["changed"], len(again["unchanged"])) == ([], [], 2)
    crontab.write_text("30 3 * * * /usr/local/bin/backup --full\n")
    last = dcron.done("import", str(crontab), "--user", "root", "--force")
    assert "0 added, 1 changed, 0 unchanged" in last.out
    assert dcron.done("list", "--names").out.split() == ["backup", "echo-good-morning"]
    task = dcron.done("view", "echo", "--json").json
    assert (task["timezone"], task["stdin"], task["env"]) == (
        "Asia/Tokyo",
        "from stdin\n",
        {"MAILTO": "ops@example.com"},
    )


def test_a_dry_run_writes_nothing(dcron: Dcron, crontab: Path) -> None:
    result = dcron.done("import", str(crontab), "--user", "root", "--dry-run")
    assert "2 would be added" in result.out
    assert f"{crontab}:4: warning: " in result.err
    assert dcron.done("list", "--json").json == []


def test_stdin_is_imported_by_a_dash(dcron: Dcron) -> None:
    assert "added" in dcron.done("import", "-", "--user", "root", stdin=CRONTAB.encode()).out
    assert dcron.done("import", "-", stdin=b"").out == "0 added, 0 changed, 0 unchanged\n"


def test_system_files_name_accounts(sqlite: Dcron, tmp_path: Path) -> None:
    (tmp_path / "sysstat").write_text(
        "5-55/10 * * * * root command -v debian-sa1 > /dev/null && debian-sa1 1 1\n"
    )
    sqlite.done("import", "--system", str(tmp_path / "sysstat"))
    task = sqlite.done("list", "--json").json[0]
    assert (task["user"], task["command"][:10]) == ("root", "command -v")


def test_every_bad_line_is_named_and_nothing_is_imported(dcron: Dcron, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("0 9 * * * fine\n99 * * * * one\n\n0 9 * * nosuchday two\nCRON_TZ=Mars/Base\n")
    refused = dcron("import", str(bad))
    assert refused.code == 2
    lines = refused.err.splitlines()
    assert [line.removeprefix(f"{bad}:").split(": ")[0] for line in lines[:3]] == ["2:1", "4:9", "5:9"]
    assert lines[3:] == ["dcron: nothing was imported"]
    assert refused.out == ""
    assert dcron.done("list", "--json").json == []


def test_a_task_that_agents_cannot_run_is_refused_too(dcron: Dcron) -> None:
    refused = dcron("import", "-", stdin=b"0 9 * * * fine\n0 0 30 2 * never\n\n@after ever ever\n")
    assert refused.code == 2
    first, last = refused.err.splitlines()
    assert first.startswith("<stdin>:4:1: '@after ever': ever cannot come after itself")
    assert last == "dcron: nothing was imported"
    assert dcron.done("list", "--json").json == []


def test_all_bad_lines_are_reported_at_once(dcron: Dcron) -> None:
    refused = dcron("import", "-", stdin=b"@after ever ever\n@every_minute x\n0 9 * * * fine\n99 * * * * y\n")
    assert refused.code == 2
    lines = [line.split(":")[1] for line in refused.err.splitlines()[:-1]]
    assert lines == ["1", "2", "4"]
    assert dcron.done("list", "--json").json == []


def test_a_task_that_never_fires_is_imported_paused(dcron: Dcron) -> None:
    text = b"CRON_TZ=UTC\n0 0 31 2 * off\n0 9 * * * fine\n"
    done = dcron.done("import", "-", "--user", "root", stdin=text)
    assert "2 added, 0 changed" in done.out
    assert "<stdin>:2: warning: off is imported paused: '0 0 31 2 *' never fires" in done.err
    tasks = {task["name"]: task for task in dcron.done("list", "--json").json}
    assert {name: task["enabled"] for name, task in tasks.items()} == {"off": False, "fine": True}
    assert "never fires" in tasks["off"]["paused_reason"]
    again = dcron.done("import", "-", "--user", "root", stdin=text)
    assert again.out == "0 added, 0 changed, 2 unchanged\n"
    disabled = text.replace(b"0 9 * * * fine", b"0 0 30 2 * fine")
    changed = dcron.done("import", "-f", "-", "--user", "root", stdin=disabled)
    assert "<stdin>:3: warning: fine is imported paused" in changed.err
    assert not dcron.done("view", "fine", "--json").json["enabled"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 9 * * * x\n0 9 * * * \xff\n", ":2:11: "),
        (b"#" * 1_000_001, "larger"),
        (b"0 9 * * * a\0b\n", ":1:12: "),
    ],
)
def test_what_is_no_crontab_is_refused(sqlite: Dcron, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    refused = sqlite("import", str(tmp_path / "file"))
    assert (refused.code, message in refused.err) == (2, True)


def test_a_missing_file_or_a_directory_is_wrong_usage(sqlite: Dcron, tmp_path: Path) -> None:
    assert sqlite("import", str(tmp_path / "none")).code == 2
    assert sqlite("import", str(tmp_path)).code == 2
    assert sqlite("import").code == 2


@pytest.mark.slow
def test_what_is_exported_can_be_imported(dcron: Dcron, sqlite: Dcron) -> None:
    dcron.done("import", "-", "--user", "root", stdin=CRONTAB.encode())
    dcron.done(
        "add",
        "-n",
        "odd",
        "--user",
        "root",
        "--timeout",
        "5m",
        "-e",
        "A=x y",
        "@every 90s",
        "printf",
        "%s\\n",
        "a b",
    )
    dcron.done("in", "1h", "gone tomorrow")
    text = dcron.done("export").out
    assert dcron.done("export", "--format", "crontab").out == text
    assert "gone tomorrow" not in text
    before = {task["name"]: task for task in dcron.done("list", "--json").json if not task["once"]}
    copy = Dcron(sqlite._monkeypatch, sqlite._capsys, f"{sqlite.url}.copy")
    copy.done("import", "-", "--user", "root", stdin=text.encode())
    after = {task["name"]: task for task in copy.done("list", "--json").json}
    varying = {"next_run_at", "version", "source"}
    assert [{k: v for k, v in task.items() if k not in varying} for task in after.values()] == [
        {k: v for k, v in task.items() if k not in varying} for task in before.values()
    ]


def test_an_unknown_format_is_wrong_usage(sqlite: Dcron) -> None:
    assert sqlite("export", "--format", "yaml").code == 2
    refused = sqlite("export", "--format", "json", "--system")
    assert (refused.code, "--system is for crontabs" in refused.err) == (2, True)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_of_an_export_has_the_same_tasks(sqlite: Dcron, format: Format) -> None:
    sqlite.done("add", "-n", "a", "--timeout", "5m", "--label", "team=shop", "@every 90s", "ls")
    sqlite.done("add", "-n", "b", "-z", "Asia/Tokyo", "-e", "A=ünï\x1b", "0 4 * * *", "two\nlines")
    text = sqlite.done("export", "--format", format).out
    assert "\x1b" not in text
    tasks = [task.definition for task in parse(text, file="export", timezone="UTC").tasks]
    assert write(tasks, "text") == sqlite.done("export").out
    assert sqlite.done("lint", "-", stdin=text.encode()).err == "no warnings\n"


def test_an_export_of_a_system_crontab_names_the_accounts(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "mine", "0 3 * * *", "mine")
    sqlite.done("add", "-n", "theirs", "--user", "www-data", "-z", "UTC", "0 4 * * *", "theirs")
    plain = sqlite.done("export")
    assert "\n#dcron$ theirs\n" in plain.out
    assert "warning: an account is given for theirs" in plain.err
    system = sqlite.done("export", "--system")
    assert "\n0 4 * * * www-data theirs\n" in system.out
    assert "warning: no account is given for mine" in system.err
    again = sqlite.done("import", "-", stdin=system.out.encode())
    assert again.out == "0 added, 0 changed, 2 unchanged\n"


def test_an_export_of_a_system_crontab_starts_nothing_that_is_stopped(dcron: Dcron) -> None:
    for name in ("kept", "stopped"):
        dcron.done("add", "-n", name, "--user", "www-data", "-z", "UTC", "0 4 * * *", f"{name} it")
    dcron.done("pause", "stopped")
    paused = dcron.done("export", "--system")
    assert "\n0 4 * * * www-data kept it\n" in paused.out
    assert "\n#dcron$ stopped it\n" in paused.out
    assert "* www-data stopped it" not in paused.out
    assert "warning: a pause stops stopped: written as comments, which cron does not run" in paused.err
    assert "stopped it" in dcron.done("export").out
    again = dcron.done("import", "-", stdin=paused.out.encode())
    assert again.out == "0 added, 0 changed, 2 unchanged\n"
    past = dcron.done("export", "--system", "--at", "0s")
    assert "* www-data stopped it" not in past.out
    dcron.done("freeze")
    frozen = dcron.done("export", "--system")
    assert [line for line in frozen.out.split("\n") if "www-data" in line and line[0] != "#"] == []
    assert "warning: a freeze stops kept: written as comments" in frozen.err


def test_a_task_whose_time_is_over_comes_back_as_it_was(dcron: Dcron) -> None:
    text = (
        "CRON_TZ=UTC\n"
        "#dcron: name=windowed not_after=2020-01-01T00:00:00Z\n0 3 * * * true\n"
        '#dcron: name=past schedule="@at 2020-01-01T00:00:00Z"\n#dcron$ true\n'
    )
    done = dcron.done("import", "-", "--user", "root", stdin=text.encode())
    assert "2 added, 0 changed" in done.out
    assert done.err.count("its last time has passed, so it will not run") == 2
    assert "<stdin>:3: warning: windowed: " in done.err
    assert {task["next_run_at"] for task in dcron.done("list", "--json").json} == {None}
    exported = dcron.done("export", "--system").out
    again = dcron.done("import", "-", stdin=exported.encode())
    assert "0 added, 0 changed, 2 unchanged" in again.out


def test_an_import_says_which_verb_reads_json_and_toml(sqlite: Dcron) -> None:
    for text, form in ((b"[]", "JSON"), (b"[task.a]\n", "TOML")):
        refused = sqlite("import", "-", stdin=text)
        assert refused.code == 2
        assert f"<stdin> is {form}: `dcron apply -F -` reads it, import reads crontabs" in refused.err
