"""Calls of the service that may write, each in a thread of its own; the answer comes back into the app."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dcron.errors import DcronError, unexpected

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.tui.app import DcronApp

T = TypeVar("T")


def errand(
    app: "DcronApp",
    do: "Callable[[Crontab], T]",
    done: Callable[[T], None],
    failed: Callable[[DcronError], None],
) -> None:
    """Call `do` in a daemon thread, and then `done` or `failed` in the app, if it is still there.

    Keys wait for it: they are meant for what comes of it.
    """
    app.errands += 1

    def over(call: Callable[[Any], None], value: Any) -> None:
        app.errands -= 1
        call(value)

    def run() -> None:
        try:
            answer = do(app._shared_crontab())
        except DcronError as error:
            _later(app, over, failed, error)
        except Exception as error:  # a mistake of ours must not leave the screen without an answer
            _later(app, over, failed, DcronError(unexpected(error)))
        else:
            _later(app, over, done, answer)

    threading.Thread(target=run, name="errand", daemon=True).start()


def _later(app: "DcronApp", over: Callable[[Any, Any], None], call: Callable[[T], None], value: T) -> None:
    try:
        app.call_from_thread(over, call, value)
    except RuntimeError:  # the app is gone
        return
