"""Channels: where an agent sends notifications. They are tables [notify.NAME] of a config file.

URLs, passwords and headers are secret: no message, log or database row repeats them. The value of a text
may be `$VAR`, and `url_file` and `password_file` name files; both are read each time something is sent.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from dcron.config import trust
from dcron.errors import Refused, UsageError
from dcron.values.similar import did_you_mean

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
MAILTO = "mailto"
"""Nodes with a channel of kind mail offer this one, too: it means all channels `mailto:ADDRESS`."""
MAIL_PREFIX = f"{MAILTO}:"
"""The beginning of the channel of a mail address."""
RESERVED = (MAILTO, "none", "output")
"""Words that mean something else where a channel may be named."""
_TEXT = "a text in quotes"
_TEXTS = 'a text in quotes, or a list such as ["a", "b"]'
_TABLE = "a table of texts in quotes"
_KEYS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "mail": {
            **dict.fromkeys(("from", "sendmail", "smtp", "tls", "user", "password", "password_file"), _TEXT),
            "to": _TEXTS,
        },
        "webhook": {"url": _TEXT, "url_file": _TEXT, "headers": _TABLE},
        "command": {"command": _TEXTS, "format": _TEXT},
        "apprise": {"url": _TEXTS, "url_file": _TEXT},
    }
)
"""By kind, the keys beside `kind` and the types of their values."""
KINDS = tuple(_KEYS)
_CHOICES = {"tls": ("none", "starttls", "tls"), "format": ("text", "json")}
_FILES = {"url_file": "url", "password_file": "password"}
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
LOGIN_HINT = "user:password@, which belongs into headers: Authorization"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Channel:
    """One channel. `options` are as in the config file, without `kind`."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file: Path | None = field(default=None, compare=False, repr=False)
    """The config file that has it."""

    @property
    def has_secret(self) -> bool:
        """Whether the config file itself holds a secret of the channel."""
        texts = [*_texts(self.options.get("url")), *_texts(self.options.get("password"))]
        texts += self.options.get("headers", {}).values()
        return any(not _VARIABLE.fullmatch(text) for text in texts)

    @property
    def secret_files(self) -> list[Path]:
        """The files that hold its secrets."""
        return [Path(self.options[name]) for name in _FILES if name in self.options]

    def resolved(self, environment: Mapping[str, str], *, strict: bool = False) -> dict[str, Any]:
        """Return the options with variables and files replaced by their values.

        With `strict`, a file that other accounts can change is refused. Raises UsageError or Refused, whose
        messages repeat no value.
        """
        options = {}
        for name, value in self.options.items():
            if name in _FILES:
                options[_FILES[name]] = self._read(name, Path(value), strict=strict)
            elif name == "command":  # the shell replaces variables
                options[name] = value
            else:
                options[name] = self._replaced(name, value, environment)
        return options

    def _replaced(self, name: str, value: Any, environment: Mapping[str, str]) -> Any:
        if isinstance(value, list):
            return [self._replaced(name, each, environment) for each in value]
        if isinstance(value, dict):
            return {key: self._replaced(f"{name}.{key}", each, environment) for key, each in value.items()}
        if not (found := _VARIABLE.fullmatch(value)):
            return value
        variable = found[1] or found[2]
        if not (text := environment.get(variable)):
            raise UsageError(f"channel {self.name}: {name}: ${variable} is not set")
        _require_plain(text, f"channel {self.name}: ${variable}")
        return text

    def _read(self, name: str, path: Path, *, strict: bool) -> str:
        what = f"channel {self.name}: {name} {path}"
        if strict and (problem := trust.problem_with(path)):
            raise Refused(f"channel {self.name}: {trust.refusal(f'the file {path}', problem)}")
        try:
            text = path.read_text("utf-8").strip()
        except OSError as error:
            raise UsageError(f"{what}: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"{what} is not UTF-8") from None
        if not text:
            raise UsageError(f"{what} is empty")
        _require_plain(text, what)
        return text


def parse(name: str, table: Any, path: Path) -> Channel:
    """Return the channel of a table of this config file. Raises UsageError, which repeats no value."""
    where = f"{path}: [notify.{name}]"
    if not NAME.fullmatch(name) or name in RESERVED:
        raise UsageError(
            f"{path}: [notify]: {name!r} cannot be the name of a channel; use a letter and up to 39 of"
            f" a-z 0-9 _ -, but not {', '.join(RESERVED)}"
        )
    if not isinstance(table, dict):
        raise UsageError(f'{path}: [notify] takes tables such as  [notify.ops]  with  kind = "mail"')
    kind = table.get("kind")
    if kind not in KINDS:
        raise UsageError(f"{where}: kind is one of {', '.join(KINDS)}")
    options = {key: value for key, value in table.items() if key != "kind"}
    for key, value in options.items():
        _require_right(key, value, kind, where)
    _require_complete(options, kind, where)
    return Channel(name, kind, options, path)


def _require_right(key: str, value: Any, kind: str, where: str) -> None:
    """Raise UsageError for an unknown key, or a value of the wrong type."""
    if (right := _KEYS[kind].get(key)) is None:
        meant = did_you_mean(key, _KEYS[kind], f"kind {kind} takes {', '.join(sorted(_KEYS[kind]))}")
        raise UsageError(f"{where}: unknown setting {key!r}{meant}")
    texts = [value]
    if right is _TEXTS and isinstance(value, list):
        texts = value
    if right is _TABLE:
        texts = list(value.values()) if isinstance(value, dict) else [None]
    if not texts or not all(isinstance(each, str) and each for each in texts):
        raise UsageError(f"{where}: {key} is not {right}")
    for each in texts:
        if key != "command":
            _require_plain(each, f"{where}: {key}")
        if key in _CHOICES and each not in _CHOICES[key]:
            raise UsageError(f"{where}: {key} is one of {', '.join(_CHOICES[key])}")


def _require_complete(options: Mapping[str, Any], kind: str, where: str) -> None:
    """Raise UsageError if a key is missing, or if two keys exclude each other."""
    for file, text in _FILES.items():
        if file in options and text in options:
            raise UsageError(f"{where}: give {text} or {file}, not both")
        if file in options and not options[file].startswith("/"):
            raise UsageError(f"{where}: {file} is not an absolute path")
    if kind in ("webhook", "apprise") and not options.keys() & {"url", "url_file"}:
        raise UsageError(f"{where}: url or url_file is missing")
    if kind == "command" and "command" not in options:
        raise UsageError(f"{where}: command is missing")
    if kind == "webhook" and "url" in options and not is_web_address(options["url"]):
        raise UsageError(
            f"{where}: url is not an address that begins with https:// or http://, without {LOGIN_HINT}"
        )
    if kind == "mail":
        _require_complete_mail(options, where)


def _require_complete_mail(options: Mapping[str, Any], where: str) -> None:
    if "smtp" in options and "sendmail" in options:
        raise UsageError(f"{where}: give smtp or sendmail, not both")
    of_smtp = [name for name in ("tls", "user", "password", "password_file") if name in options]
    if of_smtp and "smtp" not in options:
        raise UsageError(f"{where}: {of_smtp[0]} needs smtp")
    if ("user" in options) is not bool(options.keys() & {"password", "password_file"}):
        raise UsageError(f"{where}: give user together with password or password_file")
    if not options.get("sendmail", "/").startswith("/"):
        raise UsageError(f"{where}: sendmail is not an absolute path")


def is_web_address(text: str) -> bool:
    """Return whether it is a URL of http or https without a user, or a variable that may hold one.

    Python's client would send `user:password@host` to the name server.
    """
    if _VARIABLE.fullmatch(text):
        return True
    try:
        url = urlsplit(text)
        return (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and "@" not in url.netloc
            and (url.port or 1) > 0
        )
    except ValueError:
        return False


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _require_plain(text: str, where: str) -> None:
    if _CONTROL.search(text):
        raise UsageError(f"{where} has a control character, such as a line break")


def usable(
    channels: Mapping[str, Channel], *, strict: bool, environment: Mapping[str, str] = os.environ
) -> tuple[list[Channel], list[str]]:
    """Return the channels that an agent can offer, and why it cannot offer the others.

    A channel with a missing variable or file is not offered: another node may have it complete.
    """
    good, problems = [], []
    for channel in channels.values():
        try:
            channel.resolved(environment, strict=strict)
        except (UsageError, Refused) as error:
            problems.append(str(error))
        else:
            good.append(channel)
    return good, problems


def offered(channels: list[Channel]) -> tuple[str, ...]:
    """Return the names that a node with these channels offers."""
    mail = (MAILTO,) if any(channel.kind == "mail" for channel in channels) else ()
    return (*sorted(channel.name for channel in channels), *mail)
