"""Send by a command: it gets the message on stdin, and its exit status says whether it was sent."""

import json
import os
import subprocess
from tempfile import TemporaryFile

from dcron.notifying.message import Message, SendError
from dcron.notifying.senders.channel import Channel, document

_LONGEST_DETAIL = 500
_MOST_READ = 100_000
_MEANINGS = {126: " (it cannot be executed)", 127: " (it was not found)"}


def send(channel: Channel, message: Message) -> None:
    """Run the command. Raises SendError."""
    command = channel.options["command"]
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    text = message.text
    if channel.options.get("format") == "json":
        text = json.dumps(document(channel, message)) + "\n"
    own = {
        "DCRON_CHANNEL": channel.name,
        "DCRON_MESSAGE_ID": message.id,
        "DCRON_SUBJECT": message.subject,
        "DCRON_TO": ",".join(message.to),
    }
    run(argv, text.encode(errors="replace"), "the command", own)


def run(argv: list[str], text: bytes, what: str, environment: dict[str, str] | None = None) -> None:
    """Run a program with this text on stdin. Raises SendError, which names the program as `what`."""
    # A pipe would stay open as long as a process that it left behind. Without a directory, Python tries the
    # default one with a file of its own, which a kill may leave there.
    with TemporaryFile(dir=os.environ.get("TMPDIR") or "/tmp") as stderr:
        try:
            done = subprocess.run(
                argv,
                input=text,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
                check=False,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its arguments are not valid"
            raise SendError(f"{what} cannot be started: {reason}") from None
        if not done.returncode:
            return
        stderr.seek(0)
        detail = stderr.read(_MOST_READ).decode(errors="replace").strip()[-_LONGEST_DETAIL:] or None
        if done.returncode < 0:
            raise SendError(f"{what} was ended by signal {-done.returncode}", detail)
        meaning = _MEANINGS.get(done.returncode, "")
        raise SendError(f"{what} exited with {done.returncode}{meaning}", detail)
