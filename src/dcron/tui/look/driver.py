"""Textual's terminal driver, with two corrections."""

import os
import signal
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable

from textual.drivers import linux_driver


class Driver(linux_driver.LinuxDriver):
    """Ignores bytes that are no UTF-8, and ends the app when the terminal is gone.

    Textual's decoder ends the program at such a byte. After the terminal has vanished, every read returns
    nothing at once, and Textual reads again for ever.
    """

    def run_input_thread(self) -> None:
        """Read the typed keys until the app ends or the terminal is gone."""

        def decoder_class(_: str) -> Callable[[], IncrementalDecoder]:
            return lambda: _Decoder(self._hang_up)

        linux_driver.getincrementaldecoder = decoder_class  # type: ignore[attr-defined,assignment]
        super().run_input_thread()

    def _hang_up(self) -> None:
        """End as if the signal of a hang-up had come. Writing to the terminal is no longer possible."""
        if self.input_tty:
            self.exit_event.set()
            self._app.call_later(self._app.exit)
            os.kill(os.getpid(), signal.SIGHUP)


class _Decoder(IncrementalDecoder):
    """Decodes UTF-8, replaces other bytes, and reports the end of the input."""

    def __init__(self, ended: Callable[[], None]) -> None:
        super().__init__("replace")
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._ended = ended

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        if not data and not final:
            self._ended()
        return self._utf8.decode(data, final)
