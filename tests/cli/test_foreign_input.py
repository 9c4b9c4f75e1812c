"""Files that another account has prepared: none is followed elsewhere, and none is waited for."""

import os
from pathlib import Path

import pytest

from tests.support.cli import DCRON, Dcron
from tests.support.processes import outcome


def test_a_link_out_of_a_directory_of_sources_is_not_followed(sqlite: Dcron, tmp_path: Path) -> None:
    """Who may add files to the directory must not make CI show other ones."""
    (tmp_path / "secret").write_text("root:$6$x:19000:0:99999:7:::\n")
    source = tmp_path / "source"
    source.mkdir()
    (source / "good.cron").write_text("@daily true # dcron: good\n")
    (source / "alias.cron").symlink_to("good.cron")
    (source / "out.cron").symlink_to(tmp_path / "secret")
    answer = sqlite("apply", "-F", str(source), "--source", "x", "--dry-run")
    assert answer.code == 2
    assert "out.cron: this is a link to a file outside of" in answer.err
    assert "root:" not in answer.err + answer.out


@pytest.mark.parametrize(
    "words", [("apply", "--source", "x", "-F"), ("restore",), ("import",), ("calendar", "add", "c", "--ics")]
)
def test_a_named_pipe_is_not_waited_for(sqlite: Dcron, tmp_path: Path, words: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe.cron"
    os.mkfifo(pipe)
    answer = sqlite(*words, str(pipe))
    assert answer.code == 2, answer
    assert "named pipe" in answer.err


def test_what_a_shell_substitutes_is_read(sqlite: Dcron) -> None:
    script = f'{DCRON} import -f --user root <(echo "@daily true") && {DCRON} list'
    done = outcome(["bash", "-c", script], env={**os.environ, "DCRON_DB": sqlite.url})
    assert (done.returncode, "true" in done.stdout) == (0, True), done
