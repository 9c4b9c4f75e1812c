"""`dcron tui` as it is started: on real terminals, and where there is none."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from typer import Exit

from dcron.cli.running.screen import show
from tests.support.cli import on_terminal, real
from tests.support.patience import PATIENCE
from tests.support.terminal import terminal

QUIT = "\x11"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database file that is not there yet."""
    return f"sqlite:///{tmp_path / 'dcron.db'}"


@pytest.mark.terminal
def test_a_change_is_undone_on_a_terminal(url: str) -> None:
    assert real("add", "-n", "backup", "@yearly", "true", url=url).code == 0
    assert real("set", "backup", "--timeout", "5m", url=url).code == 0
    with terminal("tui", DCRON_DB=url) as screen:
        screen.sees("backup")
        screen.type("h")
        screen.sees("-#dcron: name=backup")
        screen.type("u")
        screen.sees("undoes it")
        screen.insist("y", "may be empty")
        screen.type("hung")
        screen.insist("\r", "undone: backup")
        screen.type(QUIT)
        assert screen.ends() == 0
    assert "undo 2: set timeout" in real("history", "backup", url=url).out


def test_it_refuses_what_is_no_terminal(url: str, tmp_path: Path) -> None:
    refused = real("tui", url=url)
    assert refused.code == 1
    assert refused.err.startswith("dcron: tui needs a terminal")
    assert len(refused.err.splitlines()) == 1
    assert not (tmp_path / "dcron.db").exists()


@pytest.mark.terminal
def test_it_refuses_a_dumb_terminal(url: str) -> None:
    refused = on_terminal("tui", url=url, TERM="dumb")
    assert refused.code == 1
    assert "dumb terminal" in refused.out
    assert "\x1b" not in refused.out


@pytest.mark.terminal
@pytest.mark.parametrize("words", [["tui"], []])
def test_it_opens_on_a_terminal_and_leaves_it_as_it_was(url: str, words: list[str]) -> None:
    shown = on_terminal(*words, url=url, wait_for="no tasks yet", typed=QUIT)
    assert shown.code == 0
    assert "\x1b[?1049h" in shown.out
    assert shown.out.rindex("\x1b[?1049l") > shown.out.rindex("no tasks yet")


@pytest.mark.terminal
def test_readonly_makes_nothing_and_says_what_is_missing(url: str, tmp_path: Path) -> None:
    missing = on_terminal("tui", "--readonly", url=url)
    assert missing.code == 3
    assert "there is no crontab at" in missing.out.splitlines()[-1]
    assert "`dcron db init` makes one" in missing.out.splitlines()[-1]
    assert list(tmp_path.glob("dcron.db*")) == []
    (tmp_path / "dcron.db").touch()
    empty = on_terminal("tui", "--readonly", url=url)
    assert empty.code == 3
    assert "has no tables yet" in empty.out.splitlines()[-1]
    assert real("db", "init", url=url).code == 0
    shown = on_terminal("tui", "--readonly", url=url, wait_for="no tasks yet", typed=QUIT)
    assert shown.code == 0


@pytest.mark.terminal
@pytest.mark.parametrize("key", ["q", "\x1b"])
def test_a_key_right_at_the_start_breaks_nothing(url: str, key: str) -> None:
    shown = on_terminal("tui", url=url, wait_for="1 Tasks", typed=key + QUIT)
    assert shown.code == 0
    assert "Traceback" not in shown.out


@pytest.mark.terminal
def test_a_byte_that_is_no_utf_8_does_not_end_it(url: str) -> None:
    with terminal("tui", DCRON_DB=url) as screen:
        screen.sees("no tasks yet")
        screen.type("\udcff\udce9")
        screen.type("/caf\udce9s")
        screen.sees("filter: caf\N{REPLACEMENT CHARACTER}s")
        screen.paste("\udce4n")
        screen.sees("s\N{REPLACEMENT CHARACTER}n")
        screen.type(QUIT)
        assert screen.ends() == 0


def test_a_screen_that_breaks_ends_with_1() -> None:
    class Broken:
        return_code = 1

        def run(self, *, mouse: bool) -> None:
            """As Textual does, which reports its own errors."""

    with pytest.raises(Exit) as ended:
        show(Broken())  # type: ignore[arg-type]
    assert ended.value.exit_code == 1


def test_without_a_terminal_dcron_alone_prints_help(url: str) -> None:
    assert real(url=url).out.startswith("Usage: dcron")


@pytest.mark.terminal
def test_a_url_that_cannot_be_read_ends_it_with_a_sentence() -> None:
    wrong = on_terminal("tui", url="mysql://host/db")
    assert wrong.code == 2
    assert "dcron: " in wrong.out.splitlines()[-1]


@pytest.mark.terminal
def test_a_config_file_with_a_wrong_key_is_refused_before_the_screen_opens(url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[tui.keys]\n"tasks.rum" = "f5"\n')
    wrong = on_terminal("tui", url=url, DCRON_CONFIG=str(config))
    assert wrong.code == 2
    assert "did you mean tasks.run?" in wrong.out
    assert "\x1b[?1049h" not in wrong.out


@pytest.mark.terminal
@pytest.mark.parametrize("theme", ["dark", "light", "ansi", "ansi-light"])
def test_every_theme_draws(url: str, tmp_path: Path, theme: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[tui]\ntheme = "{theme}"\nglyphs = "unicode"\n')
    shown = on_terminal("tui", url=url, wait_for="no tasks yet", typed=QUIT, DCRON_CONFIG=str(config))
    assert shown.code == 0


@pytest.mark.terminal
@pytest.mark.parametrize(("words", "env"), [(["tui"], {"NO_COLOR": "1"}), (["tui", "--no-color"], {})])
def test_no_color_draws_in_grey(url: str, words: list[str], env: dict[str, Any]) -> None:
    shown = on_terminal(*words, url=url, wait_for="no tasks yet", typed=QUIT, COLORTERM="truecolor", **env)
    assert shown.code == 0
    colours = {tuple(part.split(";")[2:5]) for part in _colours(shown.out)}
    assert colours
    assert all(red == green == blue for red, green, blue in colours), colours


@pytest.mark.terminal
@pytest.mark.parametrize(
    ("words", "setting", "asked"),
    [(["tui"], "", True), (["tui", "--no-mouse"], "", False), (["tui"], "mouse = false", False)],
)
def test_the_mouse_can_be_left_to_the_terminal(
    url: str, tmp_path: Path, words: list[str], setting: str, *, asked: bool
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[tui]\n{setting}\n")
    shown = on_terminal(*words, url=url, wait_for="no tasks yet", typed=QUIT, DCRON_CONFIG=str(config))
    assert shown.code == 0
    assert ("\x1b[?1000h" in shown.out) is asked


@pytest.mark.terminal
def test_a_mouse_that_is_neither_true_nor_false_is_refused(url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[tui]\nmouse = "yes"\n')
    wrong = on_terminal("tui", url=url, DCRON_CONFIG=str(config))
    assert wrong.code == 2
    assert "mouse is true or false, not 'yes'" in wrong.out


def _colours(shown: str) -> list[str]:
    import re

    return re.findall(r"[34]8;2;\d+;\d+;\d+", shown)


@pytest.mark.slow
@pytest.mark.parametrize("on_hangup", [signal.SIG_DFL, signal.SIG_IGN], ids=["default", "nohup"])
def test_it_ends_when_its_terminal_vanishes(url: str, on_hangup: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, on_hangup)
    try:
        with terminal("tui", DCRON_DB=url) as screen:
            signal.signal(signal.SIGHUP, before)
            screen.sees("1 Tasks")
            with open(os.devnull, "rb") as nothing:  # noqa: PTH123
                os.dup2(nothing.fileno(), screen._handle)
            screen.process.wait(PATIENCE)
    finally:
        signal.signal(signal.SIGHUP, before)
