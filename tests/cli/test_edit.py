"""`edit`: the crontab as text, in editors that are scripts here."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dcron.crontabfile.revising import MARK
from dcron.editor import open_editor
from dcron.errors import Refused, UsageError
from tests.support.cli import DCRON, Dcron, on_terminal

MakeEditor = Callable[..., str]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeEditor:
    """Makes $EDITOR a script of pieces of Python that change `text`, which is what is in the file.

    Its n-th call runs the n-th piece; the last one serves for all that follow. What it was shown, and the
    words it was called with, are left in `shown-N` and `words-N`.
    """
    monkeypatch.delenv("VISUAL", raising=False)

    def make(*pieces: str, name: str = "editor.py") -> str:
        # Not before the test begins: a server that a fixture starts would have its files here too.
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        script = tmp_path / name
        script.write_text(
            f"#!{sys.executable}\n"
            "import os, pathlib, subprocess, sys\n"
            f"here, pieces = pathlib.Path({str(tmp_path)!r}), {list(pieces)!r}\n"
            "number = len(list(here.glob('shown-*')))\n"
            "file = pathlib.Path(sys.argv[-1])\n"
            "text = shown = file.read_text()\n"
            "(here / f'words-{number}').write_text('\\n'.join(sys.argv[1:]))\n"
            "(here / f'shown-{number}').write_text(text)\n"
            "given = {'text': text}\n"
            "exec(pieces[min(number, len(pieces) - 1)], globals(), given)\n"
            "file.write_text(given['text'])\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("EDITOR", str(script))
        return str(script)

    return make


@pytest.fixture
def left(tmp_path: Path) -> Callable[[], list[Path]]:
    """The texts that were kept."""
    return lambda: sorted(tmp_path.glob("dcron-*/*"))


def three(dcron: Dcron) -> None:
    for name in ("a", "b", "c"):
        dcron.done("add", "-n", name, "-z", "UTC", "0 5 * * *", f"run {name}")


@pytest.mark.slow
def test_the_whole_crontab_is_changed_in_an_editor(
    dcron: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(dcron)
    editor(
        "text = text.replace('0 5 * * * run a', '0 6 * * * run a').replace('name=b', 'name=bee')\n"
        "text = text.replace('#dcron: name=c\\n0 5 * * * run c\\n', '#dcron: name=d\\n@daily run d\\n')"
    )
    done = dcron.done("edit", "--force")
    assert done.out.splitlines()[-1] == "1 added, 2 changed, 1 removed"
    found = {task["name"]: task["schedule"] for task in dcron.done("list", "--json").json}
    assert found == {"a": "0 6 * * *", "bee": "0 5 * * *", "d": "@daily"}
    assert left() == []
    text = dcron.done("export").out
    assert "0 6 * * * run a" in text
    editor("")
    dcron.done("edit")
    shown = (Path(os.environ["EDITOR"]).parent / "shown-1").read_text()
    assert shown.partition("\n\n")[2] == text.partition("\n\n")[2]
    assert "dcron at" in shown.partition("\n\n")[0]


def test_what_would_change_is_shown_and_without_a_terminal_needs_force(
    dcron: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(dcron)
    editor("text = text.replace('0 5 * * * run b', '0 6 * * * run b')")
    refused = dcron("edit")
    assert (refused.code, "add -y" in refused.err) == (1, True)
    assert "changed  b\n" in refused.out
    assert "-0 5 * * * run b\n" in refused.out
    assert "+0 6 * * * run b\n" in refused.out
    assert "run a" not in refused.out
    assert {task["schedule"] for task in dcron.done("list", "--json").json} == {"0 5 * * *"}
    kept = left()[0]
    assert f"your text is kept in {kept}" in refused.err
    assert "0 6 * * * run b" in kept.read_text()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_next_runs_say_what_a_clock_change_does(sqlite: Dcron, editor: MakeEditor) -> None:
    rule = "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU;BYHOUR=1;BYMINUTE=30;BYSECOND=0"
    sqlite.done("add", "-n", "spring", "-z", "Europe/Berlin", rule, "true")
    editor("text = text.replace('BYHOUR=1', 'BYHOUR=2').replace('true', 'false')")
    out = sqlite.done("edit", "-f").out
    before, _, after = out.partition("before")[2].partition("after")
    assert [before.count(" 01:30:00 CET"), before.count("does not exist")] == [3, 0]
    assert [after.count(" 03:00:00 CEST"), after.count("does not exist")] == [3, 3]


def test_a_new_command_shows_no_runs(sqlite: Dcron, editor: MakeEditor) -> None:
    sqlite.done("add", "-n", "a", "@daily", "true")
    editor("text = text.replace('true', 'false')")
    out = sqlite.done("edit", "-f").out
    assert ("+@daily false" in out, "next" in out, "before" in out) == (True, False, False)


def test_a_paused_task_stays_paused(sqlite: Dcron, editor: MakeEditor) -> None:
    sqlite.done("add", "-n", "a", "@daily", "true")
    sqlite.done("pause", "a", "--reason", "disk")
    editor("text = text.replace('@daily', '@weekly')")
    assert "paused" in sqlite.done("edit", "-f").out
    task = sqlite.done("view", "a", "--json").json
    assert (task["schedule"], task["paused_reason"]) == ("@weekly", "disk")


@pytest.mark.parametrize("piece", ["", "text = ''", "text += '\\n# only a remark\\n'"])
def test_no_change_is_said_and_is_no_failure(
    sqlite: Dcron, editor: MakeEditor, left: Callable[[], list[Path]], piece: str
) -> None:
    three(sqlite)
    editor(piece)
    assert sqlite.done("edit").out == "no change\n"
    assert {task["version"] for task in sqlite.done("list", "--json").json} == {1}
    assert left() == []


@pytest.mark.slow
def test_one_task_is_edited_by_name(dcron: Dcron, editor: MakeEditor, tmp_path: Path) -> None:
    three(dcron)
    dcron.done("add", "-n", "backup", "@daily", "save all")
    editor("text = text.replace('name=backup', 'name=safe').replace('save all', 'save most')")
    assert "renamed  backup -> safe" in dcron.done("edit", "-f", "backup").out
    assert "run a" not in (tmp_path / "shown-0").read_text()
    assert dcron.done("view", "safe", "--json").json["command"] == "save most"
    assert len(dcron.done("list", "--json").json) == 4
    assert dcron("edit", "nothing").code == 4


def test_deleting_all_text_of_one_task_is_refused(sqlite: Dcron, editor: MakeEditor) -> None:
    three(sqlite)
    editor("text = ''")
    refused = sqlite("edit", "-f", "a")
    assert (refused.code, "dcron rm a" in refused.err) == (1, True)
    assert len(sqlite.done("list", "--json").json) == 3


def test_mistakes_are_shown_with_their_place_in_the_text_that_is_kept(
    dcron: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(dcron)
    editor("text = text.replace('0 5 * * * run a', '0 99 * * * run a').replace('name=b', 'name=b x=1')")
    refused = dcron("edit", "-f")
    assert (refused.code, refused.out) == (2, "")
    kept = left()[0]
    lines = kept.read_text().split("\n")
    places = [message.split(":") for message in refused.err.splitlines() if message.startswith(f"{kept}:")]
    assert [lines[int(line) - 1] for _, line, *_ in places] == ["0 99 * * * run a", "#dcron: name=b x=1"]
    assert refused.err.splitlines()[-1] == "dcron: nothing was changed"
    assert {task["version"] for task in dcron.done("list", "--json").json} == {1}


@pytest.mark.terminal
def test_on_a_terminal_a_mistake_opens_the_editor_again_at_its_line(
    sqlite: Dcron, editor: MakeEditor, tmp_path: Path
) -> None:
    three(sqlite)
    editor(
        "text = text.replace('0 5 * * * run b', '0 99 * * * run b')",
        "text = text.replace('0 99', '0 9')",
        name="vim",
    )
    answer = on_terminal("edit", url=sqlite.url, typed="\n", wait_for="[Y/n/e]")
    assert answer.code == 0
    assert "0 added, 1 changed, 0 removed: apply? [Y/n/e]" in answer.out
    assert sqlite.done("view", "b", "--json").json["schedule"] == "0 9 * * *"
    assert len((tmp_path / "words-0").read_text().split("\n")) == 1
    plus, path = (tmp_path / "words-1").read_text().split("\n")
    shown = (tmp_path / "shown-1").read_text().split("\n")
    assert shown[int(plus.removeprefix("+")) - 1] == "0 99 * * * run b"
    assert shown[1].startswith(f"{MARK}line {plus.removeprefix('+')}: hour")
    assert path.endswith(".crontab")


@pytest.mark.terminal
def test_leaving_a_mistake_as_it_is_gives_up_and_keeps_the_text(
    sqlite: Dcron, editor: MakeEditor, left: Callable[[], list[Path]], tmp_path: Path
) -> None:
    three(sqlite)
    editor("text = text.replace('0 5 * * * run b', '0 99 * * * run b')", "", name="unheard-of")
    answer = on_terminal("edit", url=sqlite.url)
    assert answer.code == 2
    kept = left()[0]
    assert f"your text is kept in {kept}" in answer.out
    assert "0 99 * * * run b" in kept.read_text()
    assert MARK not in kept.read_text()
    assert (tmp_path / "words-1").read_text() == str(kept)
    assert not (tmp_path / "shown-2").exists()


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("typed", "code", "names"), [("\n", 1, "a b c"), ("y\n", 0, "a c"), ("\x04", 1, "a b c")]
)
def test_removing_takes_a_yes(
    sqlite: Dcron, editor: MakeEditor, typed: str, code: int, names: str, left: Callable[[], list[Path]]
) -> None:
    three(sqlite)
    editor("text = text.replace('#dcron: name=b\\n0 5 * * * run b\\n', '')")
    answer = on_terminal("edit", url=sqlite.url, typed=typed, wait_for="[y/N/e]")
    assert answer.code == code
    assert "removed  b" in answer.out
    assert sqlite.done("list", "--names").out.split() == names.split()
    assert bool(left()) == bool(code)


@pytest.mark.terminal
def test_from_the_question_one_may_edit_on(sqlite: Dcron, editor: MakeEditor, tmp_path: Path) -> None:
    three(sqlite)
    editor("text = text.replace('run a', 'run x')", "text = shown.replace('run x', 'run a')")
    answer = on_terminal("edit", url=sqlite.url, typed="e\n", wait_for="[Y/n/e]")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "no change")
    assert "run x" in (tmp_path / "shown-1").read_text()


def test_a_failed_editor_changes_nothing(
    sqlite: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(sqlite)
    editor("file.write_text(text.replace('run a', 'run x')); sys.exit(3)")
    refused = sqlite("edit", "-f")
    assert (refused.code, "exit code 3" in refused.err) == (1, True)
    assert {task["version"] for task in sqlite.done("list", "--json").json} == {1}
    assert "run x" in left()[0].read_text()  # it had saved


@pytest.mark.slow
def test_a_task_changed_meanwhile_is_a_conflict_with_both_versions_kept(
    dcron: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(dcron)
    editor(
        f"subprocess.run([{str(DCRON)!r}, 'set', 'b', '--timeout', '5m'], check=True)\n"
        f"subprocess.run([{str(DCRON)!r}, 'rm', '-f', 'c'], check=True)\n"
        "text = text.replace('0 5', '0 6')"
    )
    refused = dcron("edit", "-f")
    assert refused.code == 5
    assert "b was changed meanwhile" in refused.err
    assert "c was removed meanwhile" in refused.err
    assert "-#dcron: name=b timeout=5m" in refused.err
    assert "+0 6 * * * run b" in refused.err
    assert f"your text is kept in {left()[0]}" in refused.err
    assert left()[0].read_text().count("0 6 * * *") == 3
    found = {task["name"]: (task["schedule"], task["timeout"]) for task in dcron.done("list", "--json").json}
    assert found == {"a": ("0 5 * * *", None), "b": ("0 5 * * *", 300)}


def test_a_text_outlives_the_database(
    sqlite: Dcron, editor: MakeEditor, left: Callable[[], list[Path]], tmp_path: Path
) -> None:
    three(sqlite)
    editor("(here / 'dcron.db').write_bytes(b'junk' * 5000)\ntext = text.replace('run a', 'run x')")
    refused = sqlite("edit", "-f")
    assert refused.code == 3
    assert f"your text is kept in {left()[0]}" in refused.err
    assert "run x" in left()[0].read_text()


@pytest.mark.slow
def test_what_others_did_to_other_tasks_is_no_conflict(dcron: Dcron, editor: MakeEditor) -> None:
    three(dcron)
    editor(
        f"subprocess.run([{str(DCRON)!r}, 'set', 'b', '--timeout', '5m'], check=True)\n"
        "text = text.replace('0 5 * * * run a', '0 6 * * * run a')"
    )
    dcron.done("edit", "-f")
    found = [(task["schedule"], task["timeout"]) for task in dcron.done("list", "--json").json]
    assert found == [("0 6 * * *", None), ("0 5 * * *", 300), ("0 5 * * *", None)]


@pytest.mark.terminal
def test_hostile_text_is_shown_inert(sqlite: Dcron, editor: MakeEditor) -> None:
    sqlite.done("add", "-n", "a", "@daily", "printf '\x1b]52;c;eA==\x07\u202e'")
    editor("text = text.replace('@daily', '@weekly').replace('schedule=', 'cwd=\"/\\x1b[2J\" schedule=')")
    answer = on_terminal("edit", url=sqlite.url, typed="y\n", wait_for="/e]")
    assert "@weekly" in answer.out
    assert "\x1b]" not in answer.out
    assert "\x1b[2J" not in answer.out
    assert "\u202e" not in answer.out


def test_a_huge_file_is_refused_and_kept(
    sqlite: Dcron, editor: MakeEditor, left: Callable[[], list[Path]]
) -> None:
    three(sqlite)
    editor("text = '#' * 3_000_000")
    refused = sqlite("edit", "-f")
    assert (refused.code, "larger" in refused.err) == (1, True)
    assert left()[0].stat().st_size == 3_000_000


# Which editor -------------------------------------------------------------------------------------


def test_visual_comes_before_editor_and_may_have_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c \'import sys; open(sys.argv[-1], "w").write("hi")\'')
    open_editor(path, 3)
    assert path.read_text() == "hi"


@pytest.mark.parametrize(
    ("editor", "error", "message"),
    [
        ("no-such-editor", Refused, "no-such-editor"),
        ("vi 'open", UsageError, "EDITOR"),
        ("false", Refused, "exit code 1"),
        ("", Refused, "no terminal"),
    ],
)
def test_an_editor_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editor: str, error: type[Exception], message: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(error, match=message):
        open_editor(tmp_path / "file")


@pytest.mark.terminal
@pytest.mark.parametrize(("present", "code"), [(["vi", "nano"], 0), (["nano"], 0), ([], 1)])
def test_without_a_choice_the_usual_editors_are_looked_for(
    sqlite: Dcron, tmp_path: Path, present: list[str], code: int
) -> None:
    for name in present:
        (tmp_path / name).write_text(f"#!/bin/sh\n/bin/echo this is {name}\n")
        (tmp_path / name).chmod(0o755)
    answer = on_terminal("edit", url=sqlite.url, PATH=str(tmp_path), EDITOR="", VISUAL="")
    assert answer.code == code
    assert (f"this is {present[0]}" if present else "set $EDITOR") in answer.out


def test_an_editor_behind_a_link_gets_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vim.basic").write_text('#!/bin/sh\necho "$@" > "$2.words"\n')
    (tmp_path / "vim.basic").chmod(0o755)
    (tmp_path / "editor").symlink_to(tmp_path / "vim.basic")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(tmp_path / "editor"))
    open_editor(tmp_path / "file", 7)
    assert (tmp_path / "file.words").read_text() == f"+7 {tmp_path / 'file'}\n"


# Ctrl-C -------------------------------------------------------------------------------------------


@pytest.mark.terminal
def test_ctrl_c_that_the_editor_handles_does_not_end_dcron(sqlite: Dcron, editor: MakeEditor) -> None:
    three(sqlite)
    editor(
        "import time\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(30)\n"
        "except KeyboardInterrupt:\n"
        "    text = text.replace('run a', 'run x')"
    )
    answer = on_terminal("edit", "-f", url=sqlite.url, typed="\x03", wait_for="ready")
    assert answer.code == 0
    assert sqlite.done("view", "a", "--json").json["command"] == "run x"


@pytest.mark.terminal
def test_ctrl_c_that_ends_the_editor_is_130_and_changes_nothing(sqlite: Dcron, editor: MakeEditor) -> None:
    three(sqlite)
    editor(
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "file.write_text(text.replace('run a', 'run x'))\n"
        "print('ready', flush=True)\n"
        "time.sleep(30)"
    )
    answer = on_terminal("edit", "-f", url=sqlite.url, typed="\x03", wait_for="ready")
    assert answer.code == 130
    assert "your text is kept in" in answer.out
    assert sqlite.done("view", "a", "--json").json["command"] == "run a"


@pytest.mark.terminal
def test_ctrl_c_at_the_question_is_130_and_changes_nothing(sqlite: Dcron, editor: MakeEditor) -> None:
    three(sqlite)
    editor("text = text.replace('run a', 'run x')")
    answer = on_terminal("edit", url=sqlite.url, typed="\x03", wait_for="[Y/n/e]")
    assert answer.code == 130
    assert "your text is kept in" in answer.out
    assert sqlite.done("view", "a", "--json").json["command"] == "run a"
