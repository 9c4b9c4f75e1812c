"""The child process: read a channel and messages from stdin, send them, and print one result a line."""

import json
import os
import select
import signal
import sys
import threading
import time
from typing import Any

from dcron.notifying.message import Message, Outcome, SendError
from dcron.notifying.senders import SENDERS, Channel


def main() -> None:
    """Send the messages of the request. When the time is over, or the parent is gone, end at once."""
    request = json.loads(_first_line())
    threading.Thread(target=_end_with_parent, args=(request["limit"],), daemon=True).start()
    results = _private_stdout()
    channel = Channel(request["name"], request["kind"], request["options"])
    for each in request["messages"]:
        headers = tuple((name, value) for name, value in each["headers"])
        message = Message(**each | {"to": tuple(each["to"]), "headers": headers})
        line = json.dumps({"id": message.id, **_send(channel, message)})
        os.write(results, line.encode() + b"\n")


def _send(channel: Channel, message: Message) -> dict[str, Any]:
    try:
        detail = SENDERS[channel.kind](channel, message)
    except SendError as error:
        facts = {"outcome": error.outcome, "error": str(error), "detail": error.detail}
        return facts | {"retry_after": error.retry_after}
    except Exception as error:  # of a library: it is not known how far it came
        return {"outcome": Outcome.UNKNOWN, "error": f"{type(error).__name__}: {error}", "detail": None}
    return {"outcome": Outcome.SENT, "error": None, "detail": detail}


def _first_line() -> bytes:
    """Read the request. Read no further than its end: what follows on stdin is the end of the parent."""
    received = b""
    while not received.endswith(b"\n"):
        piece = os.read(0, 65_536)
        if not piece:
            sys.exit(1)
        received += piece
    return received


def _end_with_parent(limit: float) -> None:
    """Wait for the end of stdin, which the parent holds open, or of the time; then kill the process group."""
    deadline = time.monotonic() + limit
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000) and not os.read(0, 4096):
            break
    os.killpg(0, signal.SIGKILL)


def _private_stdout() -> int:
    """Return a descriptor for the results. Whatever a library prints goes nowhere."""
    results = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return results


if __name__ == "__main__":
    main()
