"""Keep the secrets of a channel out of messages."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

MASK = "***"
_SHORTEST = 4
"""Characters. A shorter part of a URL is not hidden: it protects nothing, and other words contain it."""
_WEB = ("http", "https", "json", "jsons", "form", "forms", "xml", "xmls")
"""Schemes whose URLs name a host; in others, such as slack://, the host is a secret, too."""


def secrets_of(options: Mapping[str, Any]) -> list[str]:
    """Return the secret texts of resolved options, the longest first: whole values, and parts of URLs."""
    found = {options["password"]} if "password" in options else set()
    found |= set(options.get("headers", {}).values())
    for url in _listed(options.get("url")):
        found |= {url, *_parts(url)}
    found |= {unquote(each) for each in found}
    return sorted((each for each in found if len(each) >= _SHORTEST), key=len, reverse=True)


def redact(text: str, secrets: list[str]) -> str:
    """Return the text without these secrets."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _parts(url: str) -> Iterator[str]:
    """Yield what may be secret in a URL: everything but the scheme, and the host of a web address."""
    scheme, _, rest = url.partition("://")
    try:
        host = urlsplit(f"http://{rest}").hostname if scheme in _WEB else None
    except ValueError:
        host = None
    for part in re.split(r"[/:@?&=#,]+", rest):
        if part and part.lower() != host:
            yield part


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
