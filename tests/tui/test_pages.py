"""Every page of the screen at several sizes, with Unicode and with ASCII: nothing essential is cut."""

import pkgutil
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from zoneinfo import ZoneInfo

import pytest
from textual.screen import ModalScreen
from textual.widget import Widget

import dcron.tui
from dcron.database import open_database
from dcron.services.crontab import Crontab
from dcron.tui.reads.health import Health
from dcron.tui.table.table import RowTable
from tests.support.pages import PAGES, Page, go_home, seed_troubled_shop
from tests.support.stage import NOON
from tests.support.stage import Stage as Seeded
from tests.support.tui import Screen, Stage

QUICK = ("tasks", "timeline-heat", "nodes", "task", "help", "delete")
LINES = 24
"""Lines of the smallest size: the least numbers of rows are for it."""
SIZES = ((80, LINES), (120, 40), (200, 50))
LAST_ASCII = "\x7e"


@pytest.fixture(scope="module")
def shop_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A crontab in which many things are wrong, at NOON."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shop') / 'dcron.db'}"
    stage = Seeded(url)
    seed_troubled_shop(stage)
    stage.database.close()
    return url


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not move, and the database is always well."""
    monkeypatch.setattr(Health, "now", lambda self: NOON)


async def test_the_main_pages_show_what_matters(shop_url: str) -> None:
    await _walk(shop_url, SIZES[:1], QUICK, unicode=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_main_pages_show_what_matters_at_large_sizes(shop_url: str, size: tuple[int, int]) -> None:
    await _walk(shop_url, [size], QUICK, unicode=True)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("unicode", [True, False], ids=["unicode", "ascii"])
async def test_all_pages_show_what_matters_at_every_size(shop_url: str, unicode: bool) -> None:
    seen = await _walk(shop_url, SIZES, PAGES, unicode=unicode)
    missing = {each.__name__ for each in _widgets() - seen}
    assert not missing, f"add a page that shows {missing} to tests/support/pages.py"


async def _walk(
    url: str, sizes: Sequence[tuple[int, int]], names: Iterable[str], *, unicode: bool
) -> set[type[Widget]]:
    """Open each page, check it at each size, and return the classes of all widgets that were there."""

    def connect() -> Crontab:
        return Crontab(open_database(url, clock=lambda: NOON), "ann@desk")

    stage, seen, here = Stage(url), set[type[Widget]](), ZoneInfo("Europe/Berlin")
    opened = stage.screen(size=sizes[0], connect=connect, awaited="imp", zone=here, unicode=unicode)
    async with opened as screen:
        await screen.until(lambda: screen.app.counts)
        for name in names:
            page = PAGES[name]
            await page.open(screen)
            for size in sizes:
                await _resize(screen, size)
                await screen.until(partial(_shows_all, screen, page))
                _check(screen, page, unicode=unicode)
                seen |= {type(each) for each in screen.app.screen.walk_children(Widget, with_self=True)}
            await go_home(screen)
            await _resize(screen, sizes[0])
    stage.database.close()
    return seen


def _shows_all(screen: Screen, page: Page) -> bool:
    return all(text in screen.text() for text in page.essential)


async def _resize(screen: Screen, size: tuple[int, int]) -> None:
    if screen.app.size != size:
        await screen.pilot.resize_terminal(*size)
        await screen.until(lambda: screen.app.screen.size == size)


def _check(screen: Screen, page: Page, *, unicode: bool) -> None:
    text, shown = screen.text(), screen.app.screen
    assert unicode or max(text.replace("\n", "")) <= LAST_ASCII, text
    if isinstance(shown, ModalScreen):
        for box in shown.query(".dialog"):
            assert shown.region.contains_region(box.region), text
            heading, *_, keys = box.children
            assert box.content_region.contains_region(heading.region), text
            assert box.max_scroll_y or box.content_region.contains_region(keys.region), text
    elif page.rows and screen.app.size.height == LINES:
        assert max(table.size.height for table in shown.query(RowTable) if table.size) > page.rows, text


def _widgets() -> set[type[Widget]]:
    """Return the classes of widgets and screens that the package defines, except those that others extend."""
    for module in pkgutil.walk_packages(dcron.tui.__path__, "dcron.tui."):
        import_module(module.name)
    found: set[type[Widget]] = set()
    new = {Widget}
    while new:
        new = {sub for each in new for sub in each.__subclasses__()} - found
        found |= new
    own = {each for each in found if each.__module__.startswith("dcron.")}
    return {each for each in own if not any(sub in own for sub in each.__subclasses__())}
