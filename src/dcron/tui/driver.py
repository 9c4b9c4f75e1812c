"""The terminal, as Textual drives it, but for bytes that are no UTF-8."""

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable
from functools import partial

from textual.drivers import linux_driver


class Driver(linux_driver.LinuxDriver):
    """Reads a byte that is no UTF-8 as a sign that does nothing; Textual's decoder ends the program."""

    def run_input_thread(self) -> None:
        """Read what is typed, until the end."""
        linux_driver.getincrementaldecoder = _forgiving  # type: ignore[attr-defined,assignment]
        super().run_input_thread()


def _forgiving(encoding: str) -> Callable[[], IncrementalDecoder]:
    return partial(getincrementaldecoder(encoding), errors="replace")
