"""`import`: the accounts, sources and hosts of imported tasks."""

import os
import pwd
from pathlib import Path

import pytest

from dcron.cli.asking import import_source
from dcron.config.files import host_name
from tests.support.cli import Dcron, on_terminal

IS_ROOT = os.geteuid() == 0
OWN = pwd.getpwuid(os.getuid()).pw_name
LINE = b"0 9 * * * /usr/local/bin/report\n"


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is taken for cron's spool."""
    folder = tmp_path / "crontabs"
    folder.mkdir()
    monkeypatch.setattr(import_source, "SPOOLS", (folder.resolve(),))
    return folder


@pytest.mark.parametrize("more", [(), ("-n",)])
def test_root_has_to_name_an_account(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    refused = sqlite("import", "-", *more, stdin=LINE)
    assert (refused.code, refused.out) == (1, "")
    assert "names no account (report), and root imports them" in refused.err
    assert sqlite.done("list", "--json").json == []
    assert "as root" in sqlite.done("import", "-", "--user", "root", *more, stdin=LINE).out


def test_a_task_may_be_left_to_the_agent_s_account(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "added      report  as the account of its agent\n" in sqlite.done("import", "-", stdin=LINE).out


def test_a_file_in_the_spool_is_its_owner_s(sqlite: Dcron, spool: Path) -> None:
    (spool / OWN).write_bytes(LINE)
    assert f"report  as {OWN}\n" in sqlite.done("import", str(spool / OWN)).out
    task = sqlite.done("view", "report", "--json").json
    assert task["user"] == OWN
    assert task["source"] == f"import:{host_name()}:{OWN}:{spool / OWN}"
    assert f" {task['source']}\n" in sqlite.done("view", "report").out


def test_what_cron_would_not_run_is_refused(sqlite: Dcron, spool: Path) -> None:
    (spool / "no-such-account").write_bytes(LINE)
    refused = sqlite("import", str(spool / "no-such-account"))
    assert (refused.code, "there is no account 'no-such-account'" in refused.err) == (1, True)
    (spool / OWN).symlink_to(spool / "no-such-account")
    refused = sqlite("import", str(spool / OWN))
    assert (refused.code, "is a link, which cron does not run" in refused.err) == (1, True)
    sqlite.done("import", str(spool / "no-such-account"), "--user", OWN)


@pytest.mark.skipif(not IS_ROOT, reason="a file can be given away by root alone")
def test_a_file_in_the_spool_that_another_owns_is_refused(sqlite: Dcron, spool: Path) -> None:
    (spool / "nobody").write_bytes(LINE)
    os.chown(spool / "nobody", 1, 1)
    refused = sqlite("import", str(spool / "nobody"))
    assert (refused.code, "belongs to daemon and not to nobody" in refused.err) == (1, True)


@pytest.mark.terminal
def test_a_change_is_shown_and_not_made_without_a_yes(sqlite: Dcron, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    zone = b"CRON_TZ=UTC\n"  # whatever this machine's is
    file.write_bytes(zone + LINE)
    sqlite.done("import", "--user", OWN, str(file))
    file.write_bytes(zone + LINE.replace(b"0 9", b"0 8") + b"@daily another\n")
    refused = sqlite("import", "--user", OWN, str(file))
    assert refused.code == 1
    assert '-#dcron: name=report schedule="0 9 * * *"' in refused.out
    assert '+#dcron: name=report schedule="0 8 * * *"' in refused.out
    assert "1 added, 1 changed, 0 unchanged" in refused.err
    assert sqlite.done("list", "--names").out.split() == ["report"]
    assert "-#dcron: name=report" in sqlite.done("import", "-n", "--user", OWN, str(file)).out
    assert sqlite("import", "--json", "--user", OWN, str(file)).out == ""
    yes = on_terminal("import", "--user", OWN, str(file), url=sqlite.url, typed="y\n", wait_for="[y/N]")
    assert (yes.code, "1 added, 1 changed, 0 unchanged" in yes.out) == (0, True)
    again = sqlite.done("import", "--user", OWN, str(file))
    assert again.out == "0 added, 0 changed, 2 unchanged\n"


@pytest.mark.slow
def test_another_file_s_task_is_never_changed(dcron: Dcron, tmp_path: Path) -> None:
    for name, command in (("one", "--full"), ("two", "--quick")):
        (tmp_path / name).write_text(f"#dcron: name=report\n0 9 * * * report {command}\n")
        dcron.done("import", "--user", OWN, str(tmp_path / name))
    found = {task["name"]: task["command"] for task in dcron.done("list", "--json").json}
    assert found == {"report": "report --full", "report-2": "report --quick"}
    third = dcron.done("import", "--user", OWN, "--prefix", "web3-", "--json", str(tmp_path / "two"))
    assert third.json["unchanged"] == ["report-2"]  # the same file, whatever it is called now
    same = dcron.done("import", "-", "--user", OWN, "--json", stdin=(tmp_path / "one").read_bytes())
    assert same.json["unchanged"] == ["report"]
    assert "1 already there as equal tasks (report; from import:" in same.err


def test_an_export_changes_nothing(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "open", "@daily", "true")
    sqlite.done("import", "-", "--user", OWN, stdin=LINE)
    text = sqlite.done("export").out
    assert sqlite.done("import", "-", stdin=text.encode()).out == "0 added, 0 changed, 2 unchanged\n"
    refused = sqlite(
        "import", "-", "--adopt", "--user", OWN, stdin=text.replace("@daily", "@hourly").encode()
    )
    assert (refused.code, "1 changed" in refused.err) == (1, True)


def test_tasks_go_where_the_options_say(sqlite: Dcron) -> None:
    lines = b"#dcron: name=a require=ssd\n0 9 * * * a\n"
    options = ("--every-node", "--require", "ssd", "--require", "zone=eu", "--user", OWN)
    sqlite.done("import", "-", *options, stdin=lines)
    task = sqlite.done("view", "a", "--json").json
    assert (task["every_node"], task["require"], task["user"]) == (True, ["ssd", "zone=eu"], OWN)


SYSTEM = b"#dcron: system\n5-55/10 * * * * root debian-sa1 1 1\n"


def test_a_system_file_is_warned_about(sqlite: Dcron) -> None:
    message = sqlite.done("import", "-n", "-", stdin=SYSTEM).err
    assert "<stdin>:2: warning: a job of every host: debian-sa1 collects this host's activity" in message
    assert "ONE task" in message
    for option in (("--every-node",), ("--require", "web")):
        assert "warning" not in sqlite.done("import", "-n", "-", *option, stdin=SYSTEM).err


def test_a_missing_system_is_noticed(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").write_bytes(b"0 9 * * * root shop\n")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "a file with accounts is read with --system" in sqlite("import", str(tmp_path / "shop")).err
    monkeypatch.setattr(import_source, "SYSTEM", (tmp_path.resolve(),))
    refused = sqlite("import", "--user", "root", str(tmp_path / "shop"))
    assert (refused.code, "is a system file, with an account in each line" in refused.err) == (2, True)
    sqlite.done("import", "--system", str(tmp_path / "shop"))


@pytest.mark.parametrize("name", ["munin-node", "mdadm", "sysstat", "anacron"])
def test_well_known_jobs_of_hosts_are_named(sqlite: Dcron, name: str) -> None:
    file = Path(__file__).parent.parent / "data" / "crontabs" / name
    assert f"a job of every host: {name} " in sqlite.done("import", "-n", "--system", str(file)).err


def test_an_account_without_a_home_is_warned_about(sqlite: Dcron) -> None:
    message = sqlite.done("import", "-n", "-", "--user", "no-such-account", stdin=LINE).err
    assert "this machine has no account 'no-such-account'" in message
    homeless = next((each.pw_name for each in pwd.getpwall() if not Path(each.pw_dir).is_dir()), None)
    assert homeless
    message = sqlite.done("import", "-n", "-", "--user", homeless, stdin=LINE).err
    assert f"{homeless} has no home directory here" in message
    assert f"{homeless} has no home directory" in sqlite.done("add", "--user", homeless, "@daily", "x").err
    assert "home" not in sqlite.done("add", "--user", homeless, "--cwd", "/tmp", "@daily", "x").err


def test_an_account_for_a_system_file_is_refused(sqlite: Dcron) -> None:
    refused = sqlite("import", "--system", "--user", "deploy", "-", stdin=b"0 4 * * * root true\n")
    assert (refused.code, "leave out --user or --system" in refused.err) == (2, True)
    assert sqlite.done("list", "--names").out == ""


def test_tasks_that_the_file_lost_are_named(sqlite: Dcron, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("@daily a\n@daily b\n@daily c\n")
    sqlite.done("import", "--user", OWN, str(first))
    first.write_text("@daily a\n@daily b\n")
    again = sqlite.done("import", "--user", OWN, str(first))
    source = sqlite.done("view", "a", "--json").json["source"]
    assert f"warning: 1 task of {source} is not in {first} and stays as before: c; `dcron rm c`" in again.err
    second.write_text("@daily a\n")
    adopted = sqlite.done("import", "--adopt", "--user", OWN, str(second))
    assert f"warning: 2 tasks of {source} are not in {second} and stay as before: b, c;" in adopted.err
    assert sqlite.done("list", "--names").out.split() == ["a", "b", "c"]


def test_lines_that_fail_where_their_check_is_false_are_named(sqlite: Dcron) -> None:
    line = b"@daily test -x /opt/x && /opt/x\n"
    form = "write if test -x /opt/x; then /opt/x; fi"
    assert form in sqlite.done("import", "-n", "--user", OWN, "-", stdin=line).err
    found = sqlite("lint", "-", "--json", stdin=line).json
    assert [(each["code"], form in each["message"]) for each in found] == [("guard-fails", True)]


def test_variables_of_other_crons_are_named(sqlite: Dcron) -> None:
    text = b"RANDOM_DELAY=45\nSTART_HOURS_RANGE=3-22\n@daily x\n"
    message = sqlite.done("import", "-n", "--user", OWN, "-", stdin=text).err
    assert "RANDOM_DELAY is only a variable of the commands here: " in message
    assert "START_HOURS_RANGE is only a variable of the commands here: " in message


@pytest.mark.parametrize(
    "words",
    [
        ("import", "-n", "--user", OWN, "FILE"),
        ("apply", "-F", "FILE", "--source", "s", "--dry-run"),
        ("import", "MISSING"),
        ("import", "BAD"),
        ("apply", "-F", "MISSING", "--source", "s"),
        ("apply", "-F", "BAD", "--source", "s"),
        ("restore", "DUMP", "--dry-run"),
        ("restore", "BAD"),
    ],
)
def test_without_a_write_there_is_no_crontab(sqlite: Dcron, tmp_path: Path, words: tuple[str, ...]) -> None:
    sqlite.done("add", "-n", "dumped", "@daily", "x")
    files = {"FILE": "#dcron: name=a\n@daily x\n", "BAD": "@daily\n"}
    files["DUMP"] = sqlite.done("dump", "-").out
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sqlite.url = f"sqlite:///{tmp_path}/new/dcron.db"
    (tmp_path / "new").mkdir(mode=0o700)
    paths = [str(tmp_path / word) if word.isalpha() and word.isupper() else word for word in words]
    done = sqlite(*paths)
    writes = not {"MISSING", "BAD"} & set(words)
    assert done.code == (0 if writes else 2), done.err
    assert ("a" in done.out) is writes
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_in_another_encoding_says_how_to_convert_it(sqlite: Dcron, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes("@daily x # café\n".encode("latin-1"))
    refused = sqlite("import", str(tmp_path / "old"))
    assert refused.code == 2
    assert f"`iconv -f latin1 -t utf8 {tmp_path}/old` converts it" in refused.err
