"""Start the child process that sends, and wait for its results, but not longer than a limit."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from dcron.notifying.message import Message, Outcome, Result
from dcron.notifying.secrets import redact, secrets_of

LIMIT = 30.0
"""Seconds for one child process."""
_ENVIRONMENT = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    )
)
"""The variables that the child gets, with LC_…: neither those of dcron nor those of its secrets."""
LONGEST_RETRY_AFTER = 3600.0
"""Seconds for which a receiver can ask not to be tried again."""
_LONGEST_ANSWER = 1_000_000
_LONGEST_ERROR, _LONGEST_DETAIL = 300, 500
"""Characters."""
_SLICE = 0.2
"""Seconds between two questions whether to end early."""
_LAST_WAIT = 5.0
"""Seconds to wait for the end of a child that was killed."""


class Delivery:
    """Messages on their way: a child process, and what it has answered."""

    def __init__(
        self, name: str, kind: str, options: Mapping[str, Any], messages: Sequence[Message], limit: float
    ) -> None:
        """Start the child. `options` are those of the channel, with its secrets. Raises OSError."""
        self._messages = messages
        self._limit = limit
        self._secrets = secrets_of(options)
        request = {"name": name, "kind": kind, "options": dict(options), "limit": limit}
        request["messages"] = [asdict(message) for message in messages]
        self._request = memoryview(json.dumps(request).encode() + b"\n")
        self._answer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dcron.notifying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=child_environment(os.environ),
        )

    @property
    def pid(self) -> int:
        """The pid of the child, and of its process group."""
        return self._process.pid

    def results(self, should_end: Callable[[], bool] = lambda: False) -> list[Result]:
        """Wait for the results, in the order of the messages; at the limit, kill the child and its group.

        `should_end` is asked several times a second: if it returns True, the child is killed at once.
        """
        deadline = time.monotonic() + self._limit
        try:
            self._exchange(deadline, should_end)
            is_late = time.monotonic() >= deadline
        finally:
            self._end()
        return self._read(f"no answer within {self._limit:g} seconds" if is_late else "the sender was ended")

    def _exchange(self, deadline: float, should_end: Callable[[], bool]) -> None:
        """Write the request and read the answer until its end. Leave stdin open: its end ends the child."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        os.set_blocking(stdin.fileno(), False)
        os.set_blocking(stdout.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0 and not should_end():
                for key, _ in selector.select(min(left, _SLICE)):
                    if key.fileobj is stdin and not self._write(stdin.fileno()):
                        selector.unregister(stdin)
                    if key.fileobj is stdout and not self._receive(stdout.fileno()):
                        return

    def _write(self, fd: int) -> bool:
        """Write a piece of the request; return whether there is more."""
        with suppress(BlockingIOError):
            try:
                self._request = self._request[os.write(fd, self._request) :]
            except BrokenPipeError:  # the child is gone; the end of its answer says so, too
                return False
        return bool(self._request)

    def _receive(self, fd: int) -> bool:
        """Read a piece of the answer; return whether there may be more."""
        try:
            piece = os.read(fd, 65_536)
        except BlockingIOError:
            return True
        self._answer += piece
        return bool(piece) and len(self._answer) < _LONGEST_ANSWER

    def _end(self) -> None:
        """End the child and its process group, and close the pipes."""
        if self._is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WAIT)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def _is_alive(self) -> bool:
        """Return whether the child has not ended by itself. A short wait lets it end after its answer."""
        try:
            self._process.wait(0.5 if self._has_all() else 0)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _has_all(self) -> bool:
        return self._answer.count(b"\n") >= len(self._messages)

    def _read(self, otherwise: str) -> list[Result]:
        answers: dict[str, Result] = {}
        for line in self._answer.splitlines():
            with suppress(ValueError, TypeError, KeyError):
                found = json.loads(line)
                texts = (
                    self._clean(found["error"], _LONGEST_ERROR),
                    self._clean(found["detail"], _LONGEST_DETAIL),
                )
                retry_after = _seconds(found.get("retry_after"))
                answers[found["id"]] = Result(Outcome(found["outcome"]), *texts, retry_after)
        missing = Result(Outcome.UNKNOWN, otherwise)
        return [answers.get(message.id, missing) for message in self._messages]

    def _clean(self, text: str | None, longest: int) -> str | None:
        """Return a text of the child without the secrets of the channel."""
        return text and redact(text, self._secrets)[:longest]


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(float(value), LONGEST_RETRY_AFTER) if is_number and value > 0 else None


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the child inherits of an environment."""
    return {
        name: value for name, value in environment.items() if name in _ENVIRONMENT or name.startswith("LC_")
    }


def deliver(
    name: str,
    kind: str,
    options: Mapping[str, Any],
    messages: Sequence[Message],
    limit: float = LIMIT,
) -> list[Result]:
    """Send the messages over one channel and return the result of each. Raises OSError."""
    return Delivery(name, kind, options, messages, limit).results()
