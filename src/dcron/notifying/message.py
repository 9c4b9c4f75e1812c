"""A message to send, and the result of sending it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Message:
    """A message. Its parts are safe to print: the caller has made foreign text inert."""

    id: str
    """Stable: a message that is sent again has the same ID, so that the receiver can drop the second."""
    subject: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The content for programs that receive the message. Serializable as JSON."""
    to: tuple[str, ...] = ()
    """For mail: the addresses. Without any, those of the channel."""
    headers: tuple[tuple[str, str], ...] = ()
    """For mail: headers that are added, or that replace those of the same name."""


class Outcome(StrEnum):
    """How the sending of a message ended."""

    SENT = "sent"
    """The receiver has accepted it."""
    FAILED = "failed"
    """It was not delivered."""
    UNKNOWN = "unknown"
    """It may have been delivered: there was no answer in time, or the sender was killed."""


@dataclass(frozen=True)
class Result:
    """The result of sending one message."""

    outcome: Outcome
    error: str | None = None
    """Why it was not sent. Repeats no secret."""
    detail: str | None = None
    """The end of a failed command's stderr, or the addresses that did not get a message that was sent.

    For the agent's log. The database does not keep it."""
    retry_after: float | None = None
    """Seconds for which the receiver asks not to be tried again."""


class SendError(Exception):
    """The message was not delivered. The message of the error may hold secrets: the client removes them."""

    outcome = Outcome.FAILED

    def __init__(self, error: str, detail: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(error)
        self.detail = detail
        self.retry_after = retry_after


class UnknownOutcome(SendError):  # noqa: N818
    """There was no answer: the message may have been delivered."""

    outcome = Outcome.UNKNOWN
