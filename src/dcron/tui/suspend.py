"""The terminal is lent to another program, and taken back whatever becomes of that."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from textual.app import App


@contextmanager
def lent_terminal(app: App[Any]) -> Iterator[None]:
    """Textual's own `suspend` does not come back from an error: it is raised when the screen is there again.

    Raises SuspendNotSupported too.
    """
    problem: BaseException | None = None
    with app.suspend():
        try:
            yield
        except BaseException as error:
            problem = error
    if problem is not None:
        raise problem
