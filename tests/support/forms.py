"""A form on a real database, filled in by keys."""

from textual import events
from textual.widgets import Input

from dcron.tui.dialogs.choice_entry import ChoiceEntry
from dcron.tui.forms.form import Form
from dcron.tui.forms.rows import Row
from dcron.tui.questions.entry import LONGEST
from tests.support.tui import Screen


def form_of(screen: Screen) -> Form:
    assert isinstance(screen.app.screen, Form)
    return screen.app.screen


def row_of(screen: Screen, field: str) -> Row:
    return form_of(screen).row(field)


async def opened(screen: Screen, key: str) -> None:
    """Open a form by this key."""
    await screen.press(key)
    await screen.until(lambda: isinstance(screen.app.screen, Form))
    await screen.until(lambda: screen.app.focused is not None)


async def go(screen: Screen, field: str) -> None:
    """Go to this field."""
    row_of(screen, field).take_focus()
    await at(screen, field)


async def at(screen: Screen, field: str) -> None:
    """Wait until this field has the focus."""
    await screen.until(lambda: row_of(screen, field).has_focus_within)


async def complains(screen: Screen, field: str, error: str) -> None:
    """Wait until the field shows this error; for an empty text, no error."""
    row = row_of(screen, field)
    await screen.until(lambda: error in row.error if error else not row.error)


async def fill(screen: Screen, **texts: str) -> None:
    """Fill in fields as a person does: go to each and type."""
    for field, text in texts.items():
        await go(screen, field)
        widget = screen.app.focused
        if isinstance(widget, ChoiceEntry):
            while widget.value != text:
                await screen.press("right")
        else:
            assert isinstance(widget, Input)
            widget.value = ""
            await paste(screen, text)
            assert row_of(screen, field).text == text


async def paste(screen: Screen, text: str) -> None:
    widget = screen.app.focused
    assert isinstance(widget, Input)
    heard = len(widget.value)
    widget.post_message(events.Paste(text))
    if heard + len(text) <= LONGEST:
        await screen.until(lambda: not text or len(widget.value) > heard)


async def save(screen: Screen, *, sees: str) -> None:
    """Save, check that the review shows these texts, and agree."""
    await screen.press("ctrl+s", shows="goes on editing")
    await screen.shows(sees)
    await screen.press("enter")
