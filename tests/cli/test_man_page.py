"""The man page and the completion files: what they say."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dcron.cli import app
from dcron.cli.running.verbs import VERBS
from dcron.errors import ExitCode
from scripts import man


def rendered(page: Path) -> str:
    """Return the page as a terminal shows it, without bold letters. Fail if groff has a warning."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", str(page)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_the_page_has_every_verb_option_and_exit_code(tmp_path: Path) -> None:
    man.write(tmp_path)
    words = set(rendered(tmp_path / "dcron.1").replace(",", " ").replace("[no-]", "").split())
    for verb in VERBS:
        command = app._load(verb)
        assert verb in words
        for each in (command, *getattr(command, "commands", {}).values()):
            shown = [parameter for parameter in each.params if not getattr(parameter, "hidden", False)]
            options = {option for parameter in shown for option in parameter.opts if option.startswith("--")}
            assert options <= words, (verb, options - words)
    assert {str(code.value) for code in ExitCode} <= words
    assert "DCRON_DB" in words


def test_the_page_is_plain_ascii_and_no_line_of_text_is_a_macro() -> None:
    macros = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi"}
    lines = man.page().splitlines()
    assert man.page().isascii()
    assert {line.split()[0] for line in lines if line.startswith(".")} <= macros
    assert "dcron \\- one crontab that many servers share" in lines[2]


def test_the_completion_files_are_what_the_shells_load(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    man.write(made)
    assert {path.name for path in made.iterdir()} == set(man.FILES)
    assert "complete -o default -F" in (made / "dcron").read_text()
    assert (made / "_dcron").read_text().startswith("#compdef dcron")
    assert "complete --command dcron" in (made / "dcron.fish").read_text()
