"""Names and values in sections with titles, in as many columns as there is room for."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from dcron.tui.log.lines import breaks
from dcron.tui.table.pane import Pane
from dcron.values.safe_text import cells, safe, safe_lines

NAME_CELLS = 10
"""Width of the names; values are aligned behind them."""
COLUMNS_FROM = (0, 100, 165)
"""Widths from which on there are one, two and three columns."""
PLACES = ((0, 0, 0), (0, 1, 0), (0, 1, 2))
"""For one, two and three columns: where the sections of each column of three are shown."""
Part = tuple[str, str]
"""A text and its style."""


@dataclass(frozen=True)
class Fact:
    """A name and a value, which may be any texts. Empty values are left out."""

    name: str
    value: str
    style: str = ""
    rest: str = ""
    """What follows the value, without its style."""


@dataclass(frozen=True)
class Section:
    """Facts under a title, and the column in which they are shown if there are three."""

    title: str
    column: int
    facts: Sequence[Fact]


def filled(sections: Iterable[Section]) -> Sequence[Section]:
    """Return the sections that have facts."""
    return [section for section in sections if any(fact.value for fact in section.facts)]


class Sections(VerticalScroll, can_focus=True):
    """Sections to read; they scroll if they do not fit."""

    DEFAULT_CSS = """
    Sections { width: 1fr; height: 1fr; scrollbar-size-vertical: 1; }
    Sections Horizontal { width: 1fr; height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._columns = [SectionColumn() for _ in COLUMNS_FROM]
        self._sections: Sequence[Section] = ()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield from self._columns

    def show(self, sections: Iterable[Section]) -> None:
        """Show these sections; those without facts are left out."""
        self._sections = filled(sections)
        self._arrange()

    def on_resize(self) -> None:
        """Use as many columns as there is room for."""
        self._arrange()

    def _arrange(self) -> None:
        count = max(1, sum(self.size.width >= least for least in COLUMNS_FROM))
        places = PLACES[count - 1]
        for number, column in enumerate(self._columns):
            column.display = number < count
            column.show([each for each in self._sections if places[each.column] == number])


class SectionsPane(Pane):
    """Sections as the first tab of a page."""

    title = "Overview"

    def __init__(self) -> None:
        super().__init__()
        self._sections = Sections()
        self._has_shown = False

    def compose(self) -> ComposeResult:
        yield self._sections

    @property
    def is_ready(self) -> bool:
        """Whether there was something to show."""
        return self._has_shown

    def show(self, sections: Iterable[Section]) -> None:
        """Show these sections."""
        self._has_shown = True
        self._sections.show(sections)


class SectionColumn(Widget):
    """Sections below each other."""

    DEFAULT_CSS = "SectionColumn { width: 1fr; height: auto; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._sections: Sequence[Section] = ()

    def show(self, sections: Sequence[Section]) -> None:
        """Show these sections. If they are the same as before, nothing is drawn."""
        if sections != self._sections:
            self._sections = sections
            self.refresh(layout=self.styles.is_auto_height)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines in this width."""
        return len(list(self._lines(width)))

    def render(self) -> Content:
        """Draw the sections."""
        lines = self._lines(self.content_size.width)
        return Content("\n").join(Content.assemble(*parts) for parts in lines)

    def _lines(self, width: int) -> Iterator[list[Part]]:
        for number, section in enumerate(self._sections):
            if number:
                yield []
            rule = "─" * (width - cells(section.title) - 1)
            yield [(section.title, "bold $text-primary"), (f" {rule}", "$track")]
            for fact in section.facts:
                if fact.value:
                    yield from _fact_lines(fact, width)


def _fact_lines(fact: Fact, width: int) -> Iterator[list[Part]]:
    """Yield the lines of a fact; the value begins on a line of its own if the name is too long."""
    room = max(1, width - NAME_CELLS)
    name = safe(fact.name)
    if cells(name) >= NAME_CELLS:
        yield [(name, "$foreground-muted")]
        name = ""
    styled = len(fact.value) if fact.rest else None  # a value with a rest is one short line
    for line in safe_lines(fact.value + fact.rest).split("\n"):
        for part in _wrapped(line, room):
            margin = (name + " " * (NAME_CELLS - cells(name)), "$foreground-muted")
            yield [margin, (part[:styled], fact.style), (part[len(part[:styled]) :], "")]
            name, styled = "", styled and 0


def _wrapped(line: str, width: int) -> Sequence[str]:
    if line.isascii():
        return textwrap.wrap(line, width, subsequent_indent="  " if width > 20 else "") or [""]
    starts = breaks(line, width)
    return [line[start:end] for start, end in zip(starts, (*starts[1:], None), strict=True)]
