"""Colours of the command line by what the terminal shows."""

from io import StringIO

import pytest

from dcron.cli.output.colours import ActiveCell, AlarmCell, GoodCell, Title, coloured
from dcron.presentation.emphasis import Notable


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "colorterm", "expected"),
    [
        ("xterm-256color", "", (31, 32, 33, 36, 1)),
        ("alacritty", "truecolor", (31, 32, 33, 36, 1)),
        ("xterm", "", (91, None, 35, 1, 1)),
        ("linux", "", (91, None, 35, 1, 1)),
        ("dumb", "", (None,) * 5),
    ],
)
def test_terminals_with_few_colours_get_those_that_are_readable_on_black_and_on_white(
    term: str, colorterm: str, expected: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    monkeypatch.delenv("NO_COLOR", raising=False)
    kinds = (AlarmCell, GoodCell, Notable, ActiveCell, Title)
    shown = [coloured("x", kind("x"), _Terminal()) for kind in kinds]
    assert shown == ["x" if code is None else f"\x1b[{code}mx\x1b[0m" for code in expected]


def test_no_color_leaves_out_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("x", AlarmCell("x"), _Terminal()) == "x"
