"""Send by HTTP: POST the message as JSON. A status of 2xx is success."""

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from dcron.notifying.message import Message, SendError, UnknownOutcome
from dcron.notifying.senders.channel import Channel, document

_PATIENCE = 20.0
"""Seconds for each step of the exchange. The child process has a limit for all of it."""
_LONGEST_ANSWER = 65_536
_KEEPS_METHOD = (301, 302, 307, 308)


def send(channel: Channel, message: Message) -> None:
    """POST the message. Raises SendError."""
    request = urllib.request.Request(
        channel.options["url"],
        data=json.dumps(document(channel, message)).encode(),
        headers={
            "Content-Type": "application/json",
            "User-Agent": "dcron",
            "Idempotency-Key": message.id,
            **channel.options.get("headers", {}),
        },
        method="POST",
    )
    if "@" in (request.host or ""):
        raise SendError("the URL has user:password@: give an Authorization in headers instead")
    if request.type not in ("http", "https") or not request.host:
        raise SendError("the URL is not an address that begins with https:// or http://")
    post(request)


def post(request: urllib.request.Request) -> None:
    """Send the request, and follow redirects on the same host. Raises SendError."""
    try:
        with urllib.request.build_opener(_SameHost).open(request, timeout=_PATIENCE) as answer:
            answer.read(_LONGEST_ANSWER)
    except urllib.error.HTTPError as error:
        error.close()
        retry_after = _seconds(error.headers.get("Retry-After"))
        raise SendError(f"the server answers {error.code} {error.reason}", retry_after=retry_after) from None
    except urllib.error.URLError as error:
        raise _from_reason(error.reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise UnknownOutcome(f"no answer: {type(error).__name__}: {error}") from None


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a header `Retry-After`: a number, or a date. None if it is neither, or past."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (at.astimezone(UTC) - datetime.now(UTC)).total_seconds()) or None


def _from_reason(reason: Any) -> SendError:
    """Return the error of an exchange that failed before an answer."""
    if isinstance(reason, (ConnectionRefusedError, socket.gaierror, ssl.SSLError)):
        return SendError(f"no connection: {reason}")
    return UnknownOutcome(f"no answer: {reason}")


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Sends the request again where a redirect stays on the host: another one must not get the secrets."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_upgrade = (old.scheme, new.scheme) == ("http", "https") and old.hostname == new.hostname
        if not is_upgrade and (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise SendError(f"the server answers {code}, a redirect to another host: it is not followed")
        if code not in _KEEPS_METHOD:
            raise SendError(f"the server answers {code}, a redirect that takes no message")
        return urllib.request.Request(newurl, data=req.data, headers=req.headers, method="POST")
