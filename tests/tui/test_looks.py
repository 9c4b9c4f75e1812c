"""What must be readable: the cursor row in every theme, and failures without colours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color
from textual.filter import Monochrome
from textual.theme import Theme

from dcron.model import RunState
from dcron.services.tasks.rows import RecentRun
from dcron.tui.dialogs.modals import HelpDialog
from dcron.tui.frame.header_footer import Bar, Hints
from dcron.tui.frame.help import help_content
from dcron.tui.keys.keynames import CHANGES
from dcron.tui.keys.keys import binding_ids
from dcron.tui.look.colours import (
    ANSI,
    ANSI_LIGHT,
    COLOURS_16,
    COLOURS_256,
    OWN_THEMES,
    THEMES,
    TRUE_COLOURS,
    terminal_colours,
    theme_name,
)
from dcron.tui.look.settings import has_unicode
from dcron.tui.table.cells import slots_cell, spark
from dcron.tui.table.detail_panel import DetailPanel
from dcron.values.safe_text import shorten_middle
from tests.support.forms import form_of
from tests.support.tui import Screen, Stage


@pytest.fixture
def stage(sqlite_stage: Stage) -> Stage:
    """An empty crontab; the kind of database makes no difference to its looks."""
    return sqlite_stage


@asynccontextmanager
async def shown(stage: Stage, **settings: Any) -> AsyncIterator[Screen]:
    """Yield a screen with two tasks."""
    async with stage.screen("backup", "report", **settings) as screen:
        yield screen


@pytest.mark.parametrize(
    ("theme", "colours"),
    [
        *((theme, TRUE_COLOURS) for theme in THEMES),
        *((theme, colours) for theme in ("dark", "light") for colours in (COLOURS_256, COLOURS_16)),
    ],
)
async def test_the_cursor_row_differs_from_its_ground_as_much_as_any_other(
    stage: Stage, theme: str, colours: str
) -> None:
    async with shown(stage, theme=theme, colours=colours) as screen:
        for look in ("ok", "failed", "quiet"):
            style = screen.table._style(f"cell--{look}", "table--cursor")
            assert style.color
            assert style.bgcolor
            if theme.startswith("ansi"):  # the terminal's own two colours, changed round
                assert style.color.is_default
                assert style.bgcolor.is_default
            if theme.startswith("ansi") or colours == COLOURS_16:
                assert style.reverse
            else:
                one, other = (sum(each.get_truecolor()) for each in (style.color, style.bgcolor))
                assert abs(one - other) > 250


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_without_colours_failures_are_not_dimmer_than_what_is_well(
    stage: Stage, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(stage, theme=theme) as screen:
        grey = {}
        assert any(isinstance(each, Monochrome) for each in screen.app._filters)
        for look in ("ok", "failed", "lost", "error", "late"):
            style = screen.table._style(f"cell--{look}")
            assert style.color
            assert style.bgcolor
            colour, ground = (Color(*each.get_truecolor()) for each in (style.color, style.bgcolor))
            grey[look] = abs(colour.brightness - ground.brightness)
            assert look == "ok" or style.bold
            assert look in ("ok", "late") or style.reverse
        assert min(grey.values()) == grey["ok"]


@pytest.mark.parametrize("theme", ["ansi", "ansi-light"])
async def test_without_colours_the_terminals_own_are_left(
    stage: Stage, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(stage, theme=theme) as screen:
        for strip in screen.app.screen._compositor.render_strips():
            for segment in strip:
                used = segment.style and (segment.style.color, segment.style.bgcolor)
                assert all(each is None or each.is_default for each in used or ()), segment
        assert screen.table._style("cell--failed").reverse
        assert not screen.table._style("cell--ok").reverse


PAINTED = [theme for theme in OWN_THEMES if theme not in (ANSI, ANSI_LIGHT)]
"""The themes with grounds of their own."""
GROUNDS = ("background", "surface", "panel", "row-cursor", "row-cursor-idle")
SIGNALS = ("text-primary", "text-success", "text-warning", "text-error")
TEXTS = ("foreground", "foreground-muted", *SIGNALS)
XTERM = (
    *("#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5"),
    *("#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"),
)
"""The 16 colours of xterm."""


@pytest.mark.parametrize("theme", PAINTED, ids=lambda theme: theme.name)
def test_texts_are_readable_on_every_ground(theme: Theme) -> None:
    drawn = as_drawn(theme)
    ratios = {(text, ground): contrast(drawn[text], drawn[ground]) for text in TEXTS for ground in GROUNDS}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}
    assert contrast(drawn["on-primary"], drawn["primary"]) >= 4.5  # the tab of the present view


@pytest.mark.parametrize("theme", PAINTED, ids=lambda theme: theme.name)
def test_colours_stay_apart(theme: Theme) -> None:
    drawn = as_drawn(theme)
    if theme.name == "dcron-light-16":  # green is not readable there; signs distinguish the results
        assert drawn["text-success"] == drawn["foreground"]
        drawn["text-success"] = ""
    assert len({drawn[name] for name in ("foreground", *SIGNALS)}) == 1 + len(SIGNALS)
    if not theme.ansi:  # there it is reversed
        assert drawn["row-cursor"] not in {drawn[name] for name in ("background", "surface", "panel")}
        assert drawn["row-cursor"] != drawn["row-cursor-idle"]


@pytest.mark.parametrize("name", ["dark", "light"])
def test_grounds_are_grey_on_terminals_with_256_colours(name: str) -> None:
    theme = next(each for each in OWN_THEMES if each.name == theme_name(name, COLOURS_256))
    drawn = as_drawn(theme)
    assert all(len(set(Color.parse(drawn[ground]).rgb)) == 1 for ground in ("background", "surface", "panel"))
    assert len(set(Color.parse(drawn["row-cursor"]).rgb)) > 1
    assert len({drawn[name] for name in ("background", "surface", "panel")}) == 3


@pytest.mark.parametrize("theme", [each for each in PAINTED if not each.ansi], ids=lambda theme: theme.name)
def test_terminals_with_256_colours_do_not_merge_the_shades_of_the_heat_map(theme: Theme) -> None:
    shades = [theme.variables[f"heat-{shade}"] for shade in range(1, 5)]
    numbers = {RichColor.parse(each).downgrade(ColorSystem.EIGHT_BIT).number for each in shades}
    assert len(numbers) == len(shades)
    towards = [contrast(each, theme.background or "") for each in shades]
    assert towards == sorted(towards)


@pytest.mark.parametrize(
    ("term", "colorterm", "expected"),
    [
        ("xterm-256color", "truecolor", TRUE_COLOURS),
        ("xterm-256color", "", COLOURS_256),
        ("tmux-256color", "", COLOURS_256),
        ("xterm", "", COLOURS_16),
        ("screen", "", COLOURS_16),
        ("linux", "", COLOURS_16),
    ],
)
def test_the_terminal_names_its_colours(
    term: str, colorterm: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    assert terminal_colours() == expected


def as_drawn(theme: Theme) -> dict[str, str]:
    """Return the colours by name, as the terminal for which the theme is made shows them."""
    colours = {**theme.to_color_system().generate(), **theme.variables}
    names = (*GROUNDS, *TEXTS, "primary", "on-primary")
    return {name: _as_drawn(colours[name], theme) for name in names}


def _as_drawn(colour: str, theme: Theme) -> str:
    if theme.ansi:
        number = RichColor.parse(colour.removeprefix("ansi_")).number
        return XTERM[number] if number is not None else colour
    if theme.name.endswith("256"):
        return RichColor.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex
    return colour


def contrast(text: str | None, ground: str | None) -> float:
    """Return the ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    darker, lighter = sorted(_luminance(each or "") for each in (text, ground))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    shares = (each / 255 for each in Color.parse(colour).rgb)
    linear = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.slow
async def test_ctrl_c_says_what_quits(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("ctrl+c", shows="ctrl+q quits")
        screen.app.clear_notifications()
        await screen.press("n", "ctrl+c")  # in a field, too, where nothing is chosen to be copied
        await screen.shows("ctrl+q quits")
        await screen.press("escape")


async def test_the_header_knows_of_runs_as_soon_as_the_rows_do(stage: Stage) -> None:
    from tests.support.stage import Stage as Agents

    async with shown(stage) as screen:
        await screen.shows("0 running  no agent is running")
        agents = Agents(stage.url)
        stage.crontab.run(stage.crontab.get("backup"))
        agents.now = stage.crontab.now()
        assert agents.take(agents.node("web-1"))
        await screen.shows("running")
        await screen.shows("1 running")
        assert "no agent is running" not in screen.lines()[0]
        agents.database.close()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8", "LC_ALL": ""}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LC_CTYPE": "C.UTF-8", "TERM": "xterm"}, True),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, False),
        ({}, False),
    ],
)
def test_unicode_is_the_default_of_utf_8_locales(environment: dict[str, str], expected: bool) -> None:
    assert has_unicode(environment) is expected


async def test_a_click_on_a_hint_does_what_its_key_does(stage: Stage) -> None:
    async with shown(stage) as screen:
        for label, shows in (("new", "new task"), ("edit", "edit backup"), ("log", "has not run yet")):
            hints = screen.lines()[-1]
            await screen.pilot.click(Hints, offset=(hints.index(label), 0))
            await screen.shows(shows)
            if label != "log":
                await screen.press("escape")
                await screen.shows_not(shows)


async def test_a_read_only_screen_offers_no_changes(stage: Stage) -> None:
    async with shown(stage, readonly=True) as screen:
        await screen.shows("/ filter")
        hints = screen.lines()[-1]
        assert "log" in hints
        assert not any(word in hints for word in ("edit", "new", "run now", "pause"))
        await screen.press("question_mark", shows="keys")
        assert "tasks.delete" not in screen.text()


def test_all_bindings_that_change_something_exist() -> None:
    assert binding_ids() >= CHANGES


async def test_below_110_columns_p_opens_the_details_under_the_tasks(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("p", shows="at 02:30 every day")
        assert "backup" in screen.lines()[3]
        await screen.press("p")
        await screen.shows_not("at 02:30 every day")


async def test_a_click_on_a_number_of_the_header_shows_these_tasks(stage: Stage) -> None:
    stage.crontab.pause(stage.add("weekly"), "")
    async with shown(stage) as screen:
        await screen.shows("1 paused")
        await screen.pilot.click(Bar, offset=(screen.lines()[0].index("1 paused"), 0))
        await screen.shows("filter: paused")
        await screen.shows_not("backup")


async def test_long_names_keep_both_ends(stage: Stage) -> None:
    for number in (1, 2):
        stage.add(f"customer-nightly-reconciliation-of-warehouse-{number:05}-west")
    async with shown(stage) as screen:
        await screen.shows("00001-west")
        await screen.shows("customer-nig")
        assert all(width <= 80 for width in map(len, screen.lines()))


@pytest.mark.parametrize(("limit", "expected"), [(20, "0123456789"), (8, "012…6789"), (5, "0123…"), (0, "")])
def test_a_name_is_shortened_in_its_middle(limit: int, expected: str) -> None:
    assert shorten_middle("0123456789", limit) == expected


async def test_the_palette_finds_a_command_by_its_own_word(stage: Stage) -> None:
    async with shown(stage) as screen:
        await screen.press("ctrl+p")
        await screen.type("view")
        await screen.shows("Show the page of a task")
        await screen.press("enter", shows=":view")


def test_short_runs_are_flat_and_each_run_has_its_colour() -> None:
    recent = [
        RecentRun(RunState.SUCCEEDED, 0.1),
        RecentRun(RunState.SUCCEEDED, 0.9),
        RecentRun(RunState.FAILED, 0.2),
    ]
    drawn = spark(recent, unicode=True)
    assert drawn.text == "▁▁×"
    assert [style for _, style in drawn.parts] == ["bar", "bar", "failed"]


@pytest.mark.parametrize(("used", "bar"), [(0, "--------"), (1, "#-------"), (8, "########")])
def test_slots_are_a_bar(used: int, bar: str) -> None:
    assert slots_cell(used, 8, unicode=False).text == f"{bar} {used}/8"
    assert slots_cell(2 * used, 16, unicode=False).text == f"{bar} {2 * used}/16"


async def test_the_help_begins_with_the_signs_and_the_key_to_quit(stage: Stage) -> None:
    async with shown(stage, unicode=True, size=(140, 40)) as screen:
        await screen.press("question_mark", shows="▶ running")
        await screen.shows("ctrl+q quits at once")


async def test_the_keys_of_the_help_fit_in_its_box(stage: Stage) -> None:
    async with shown(stage) as screen:
        for width, columns in ((72, 1), (80, 1), (120, 1), (140, 2), (200, 2)):
            room = HelpDialog.room(width)
            lines = help_content(screen.app.screen, room).plain.splitlines()
            keys = [line for line in lines if any(name in line for name in binding_ids())]
            assert max(map(len, keys)) <= room
            assert any(line.count("  tasks.") + line.count("  main.") == 2 for line in keys) == (columns == 2)


async def test_without_a_row_there_are_no_details(stage: Stage) -> None:
    async with shown(stage, size=(120, 40)) as screen:
        await screen.shows("at 02:30 every day")
        await screen.press("slash")
        await screen.enter("nothing", shows="nothing matches")
        await screen.shows_not("at 02:30 every day")
        await screen.press("escape", shows="at 02:30 every day")


@pytest.mark.parametrize(("columns", "expected"), [(120, 46), (220, 57), (280, 70)])
async def test_details_are_wider_on_wide_terminals(stage: Stage, columns: int, expected: int) -> None:
    async with shown(stage, size=(columns, 30)) as screen:
        await screen.shows("at 02:30 every day")
        panels = [each for each in screen.app.screen.query(DetailPanel) if each.size]
        assert [each.outer_size.width for each in panels] == [expected]


async def test_groups_without_a_given_field_are_folded(stage: Stage) -> None:
    stage.add("retried", tries=3)
    async with shown(stage, size=(100, 50)) as screen:
        await screen.press("G", "e", shows="+ limits")
        await screen.shows("- retries")
        form = form_of(screen)
        assert not form.row("timeout").display
        assert form.row("tries").display
        form.row("timeout").take_focus()
        await screen.shows("- limits")
        await screen.press("up", "enter", shows="all default")
