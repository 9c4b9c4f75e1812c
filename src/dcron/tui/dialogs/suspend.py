"""Give the terminal to another program, and take it back even after an error."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Suspendable(Protocol):
    """An app that can give its terminal away."""

    def suspend(self) -> AbstractContextManager[None]:
        """Leave the terminal for the length of the block. Raises SuspendNotSupported."""


@contextmanager
def suspended(app: Suspendable) -> Iterator[None]:
    """Leave the terminal for the length of the block; an error is raised after the screen is back.

    Textual's own `suspend` does not come back from an error. Raises SuspendNotSupported.
    """
    problem: BaseException | None = None
    with app.suspend():
        try:
            yield
        except BaseException as error:
            problem = error
    if problem is not None:
        raise problem
