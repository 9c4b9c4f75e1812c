"""Read the settings of dcron: option, environment, config file, default, in this order."""

import os
import pwd
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from dcron.config import channels, trust
from dcron.config.channels import Channel
from dcron.errors import UsageError
from dcron.values.similar import did_you_mean

_CONTEXT_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}", re.ASCII)
SITE_CONFIG = Path("/etc/dcron/config.toml")


@dataclass(frozen=True)
class TuiConfig:
    """The `[tui]` section. The TUI validates its values."""

    theme: str | None = None
    glyphs: str | None = None
    mouse: bool = True
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys by the name of the key binding: `[tui.keys]`."""


@dataclass(frozen=True)
class Context:
    """One of several crontabs that the config files name: `[context.NAME]`."""

    name: str
    database: str
    timezone: str | None = None
    is_protected: bool = False
    """Whether a change that asks wants the context's name."""


AGENT_TEXTS = ("name", "spool", "lease", "grace", "monitor", "ping", "log-format", "policy")
AGENT_LISTS = ("queue", "tag", "capacity")
AGENT_NUMBERS = ("slots",)
AGENT_KEYS = (*AGENT_TEXTS, *AGENT_LISTS, *AGENT_NUMBERS)
"""The options of `dcron agent`, and its spool."""


@dataclass(frozen=True)
class Config:
    """The settings of the config files; None where there is none."""

    database: str | None = None
    timezone: str | None = None
    """The zone of times that the user sees, and of new tasks if the crontab has no zone."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """By the names of AGENT_KEYS, as the options of `dcron agent` take them."""
    tui: TuiConfig = TuiConfig()
    contexts: Mapping[str, Context] = field(default_factory=dict)
    context: Context | None = None
    """The one that --context, $DCRON_CONTEXT or `default_context` chooses."""
    unread: tuple[str, ...] = ()
    """Why existing files could not be used. Only a caller that needs their settings fails."""
    distrusted: tuple[str, ...] = ()
    """Which files other accounts can change, and how. Root ignores such files."""
    database_file: Path | None = field(default=None, compare=False)
    """The file that names the database."""
    notify: Mapping[str, Channel] = field(default_factory=dict)
    """Where this machine's agent sends notifications: [notify.NAME]."""

    @property
    def named_database(self) -> str | None:
        """The URL of the chosen context, else of `database`."""
        return self.context.database if self.context else self.database


def config_paths() -> list[Path]:
    """Return the paths of the config files, the weaker first: the machine's, then the user's.

    $DCRON_CONFIG names a file that is read instead of both.
    """
    if chosen := os.environ.get("DCRON_CONFIG"):
        return [Path(chosen)]
    own = _own_directory(platformdirs.user_config_dir)
    return [SITE_CONFIG, own / "config.toml"] if own else [SITE_CONFIG]


def config_path() -> Path:
    """Return the strongest config file that exists, for messages and `info`."""
    paths = config_paths()
    return next((path for path in reversed(paths) if _is_there(path)), paths[0])


def load_config() -> Config:
    """Read the config files and merge them key by key: the user's file wins over the machine's.

    A missing file counts as empty. Raises UsageError for a file with a mistake, unless the user cannot fix
    it: a file of the machine that cannot be read goes into `unread`. For root, so does a file that other
    accounts can change: it would choose what root runs.
    """
    merged: dict[str, Any] = {}
    unread: list[str] = []
    distrusted: list[str] = []
    database_file = None
    notify: dict[str, Channel] = {}
    for path in config_paths():
        if _is_there(path) and (problem := trust.problem_with(path)):
            if os.geteuid() == trust.ROOT:
                unread.append(f"root does not read the config file {path}: {problem}{_home_hint(path)}")
                distrusted.append(unread[-1])
                continue
            distrusted.append(trust.warning(f"the config file {path}", problem))
        try:
            content = _content_of(path)
            _require_right(content, path)
            # A channel is never put together from two files: each holds its own secrets.
            notify |= _channels_from(content, path)
        except UsageError as error:
            if path != SITE_CONFIG:
                raise
            unread.append(str(error))
        except PermissionError as error:
            if "DCRON_CONFIG" in os.environ:
                raise UsageError(f"cannot read the config file {path}: {error.strerror}") from None
            unread.append(f"cannot read the config file {path}: {error.strerror}")
        else:
            merged = _merged(merged, content)
            database_file = path if {"database", "context"} & content.keys() else database_file
    agent = {
        name: [value] if name in AGENT_LISTS and isinstance(value, str) else value
        for name, value in merged.get("agent", {}).items()
    }
    contexts = {name: _context_from(name, values) for name, values in merged.get("context", {}).items()}
    context = _chosen_context(contexts, merged.get("default_context"))
    return Config(
        database=merged.get("database"),
        timezone=(context and context.timezone) or merged.get("timezone"),
        agent=agent,
        tui=_tui_from(merged),
        contexts=contexts,
        context=context,
        unread=tuple(unread),
        distrusted=tuple(distrusted),
        database_file=database_file,
        notify=notify,
    )


def _context_from(name: str, values: Mapping[str, Any]) -> Context:
    if not values.get("database"):  # an empty one would mean the SQLite file of the user
        raise UsageError(f"{config_path()}: [context.{name}] names no database")
    return Context(name, values["database"], values.get("timezone"), values.get("protected", False))


def _chosen_context(contexts: Mapping[str, Context], default: str | None) -> Context | None:
    """Return the context to use. $DCRON_DB is stronger, and an empty $DCRON_CONTEXT chooses none.

    The command line puts the value of --context into $DCRON_CONTEXT. Raises UsageError for an unknown one.
    """
    name = None if os.environ.get("DCRON_DB") else os.environ.get("DCRON_CONTEXT", default)
    if not name:
        return None
    if name not in contexts:
        there_are = f"there are {', '.join(sorted(contexts))}" if contexts else "the config file has none"
        raise UsageError(f"there is no context {name[:60]!r}{did_you_mean(name, contexts, there_are)}")
    return contexts[name]


def _content_of(path: Path) -> dict[str, Any]:
    """Return the content of the file. Raises UsageError, or PermissionError if it is not readable."""
    try:
        text = path.read_text("utf-8")
        import tomllib  # most accounts have no file

        return tomllib.loads(text)
    except FileNotFoundError:
        if "DCRON_CONFIG" in os.environ:
            raise UsageError(f"the config file {path} ($DCRON_CONFIG) does not exist") from None
        return {}
    except PermissionError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the config file {path}: {error}") from None


def _home_hint(path: Path) -> str:
    """Return a hint if sudo has kept $HOME, else an empty text."""
    home = os.environ.get("HOME")
    is_others = home and home != pwd.getpwuid(trust.ROOT).pw_dir and path.is_relative_to(home)
    return "; for root's own home, use sudo -H" if is_others else ""


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    both = {**weaker, **stronger}
    for name, value in stronger.items():
        if isinstance(value, dict) and isinstance(weaker.get(name), dict):
            both[name] = _merged(weaker[name], value)
    return both


def _require_right(content: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError for an unknown setting, or a value of the wrong type."""
    known = ("database", "timezone", "default_context", "context", "agent", "tui", "notify")
    _require_known(content, known, path, "")
    for name in ("database", "timezone", "default_context"):
        if not isinstance(content.get(name, ""), str):  # it may hold a password, so it is not quoted
            raise UsageError(f"{path}: {name} is not a text in quotes")
    agent = content.get("agent", {})
    if not isinstance(agent, dict):
        raise UsageError(f'{path}: [agent] takes lines such as  name = "web-1"')
    _require_known(agent, AGENT_KEYS, path, "[agent]: ")
    for name, value in agent.items():
        if not _is_right(name, value):
            right = "a text in quotes"
            if name in AGENT_NUMBERS:
                right = "a number from 1 on"
            if name in AGENT_LISTS:
                right = 'a text in quotes, or a list such as ["a", "b"]'
            raise UsageError(f"{path}: [agent]: {name} is {right}, not {value!r}")
    _require_tui(content, path)
    _require_contexts(content, path)


def _require_contexts(content: Mapping[str, Any], path: Path) -> None:
    contexts = content.get("context", {})
    if not isinstance(contexts, dict) or not all(isinstance(each, dict) for each in contexts.values()):
        raise UsageError(f"{path}: contexts are sections of their own: [context.NAME]")
    for name, values in contexts.items():
        if not _CONTEXT_NAME.fullmatch(name):
            raise UsageError(f"{path}: {name!r} cannot be a context's name: use 1 to 40 of A-Z a-z 0-9 . _ -")
        where = f"[context.{name}]: "
        _require_known(values, ("database", "timezone", "protected"), path, where)
        for key in ("database", "timezone"):
            if not isinstance(values.get(key, ""), str):  # it may hold a password, so it is not quoted
                raise UsageError(f"{path}: {where}{key} is not a text in quotes")
        if not isinstance(values.get("protected", False), bool):
            raise UsageError(f"{path}: {where}protected is true or false, not {values['protected']!r}")


def _require_known(names: Iterable[str], known: Sequence[str], path: Path, where: str) -> None:
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known, f"known are {', '.join(sorted(known))}")
            raise UsageError(f"{path}: {where}unknown setting {name!r}{meant}")


def _is_right(name: str, value: Any) -> bool:
    if name in AGENT_NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    if name in AGENT_LISTS and isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str)


def _channels_from(content: Mapping[str, Any], path: Path) -> dict[str, Channel]:
    """Return the channels of a file. Raises UsageError."""
    tables = content.get("notify", {})
    if not isinstance(tables, dict):
        raise UsageError(f'{path}: [notify] takes tables such as  [notify.ops]  with  kind = "mail"')
    return {name: channels.parse(name, table, path) for name, table in tables.items()}


def _tui_from(content: Mapping[str, Any]) -> TuiConfig:
    tui = content.get("tui", {})
    return TuiConfig(tui.get("theme"), tui.get("glyphs"), tui.get("mouse", True), tui.get("keys", {}))


def _require_tui(content: Mapping[str, Any], path: Path) -> None:
    tui = content.get("tui", {})
    if not isinstance(tui, dict) or set(tui) - {"theme", "glyphs", "mouse", "keys"}:
        raise UsageError(f"{path}: [tui] takes only the settings theme, glyphs and mouse, and [tui.keys]")
    keys = tui.get("keys", {})
    if not isinstance(keys, dict):
        raise UsageError(f'{path}: [tui.keys] takes lines such as  tasks.run = "ctrl+g"')
    values = [*keys.values(), *(tui[name] for name in ("theme", "glyphs") if name in tui)]
    if bad := [value for value in values if not isinstance(value, str)]:
        raise UsageError(f"{path}: [tui]: {bad[0]!r} is not a text in quotes")
    mouse = tui.get("mouse", True)
    if not isinstance(mouse, bool):
        raise UsageError(f"{path}: [tui]: mouse is true or false, not {mouse!r}")


def database_url(option: str | None, config: Config) -> str:
    """Return the URL of --db, $DCRON_DB, the context or the config file, else of the user's SQLite file.

    Raises UsageError if none is named and there is no home directory, or if a config file that may name one
    cannot be read.
    """
    if chosen := option or os.environ.get("DCRON_DB") or config.named_database:
        return chosen
    if config.unread:
        raise UsageError(f"{config.unread[0]}; it may name the database: name it with --db or $DCRON_DB")
    if (own := own_database()) is None:
        raise UsageError("this account has no home directory for a database: name one with --db or $DCRON_DB")
    return f"sqlite:///{own}"


def database_origin(option: str | None, config: Config) -> str:
    """Return what names the database that `database_url` returns, as people read it."""
    if option:
        return "--db"
    if os.environ.get("DCRON_DB"):
        return "$DCRON_DB"
    if config.named_database is None:
        return "the default: nothing names another one"
    return f"the context {config.context.name}" if config.context else str(config.database_file)


def own_database() -> Path | None:
    """Return the SQLite file of a user who has named no database; None for one without a home directory.

    Its directory is made on first use.
    """
    own = _own_directory(platformdirs.user_data_dir)
    return own / "dcron.db" if own else None


def spool_directory(config: Config) -> Path:
    """Return the directory in which an agent keeps results that are not in the database yet.

    Raises UsageError if none is named and there is no home directory.
    """
    if chosen := os.environ.get("DCRON_SPOOL"):
        return Path(chosen)
    if chosen := config.agent.get("spool"):
        return Path(chosen)
    if (own := _own_directory(platformdirs.user_state_dir)) is None:
        raise UsageError("this account has no home directory for a spool: name a directory with $DCRON_SPOOL")
    return own / "spool"


def _own_directory(which: Callable[[str], str]) -> Path | None:
    """Return one of this account's directories; None for an account without a home, as in many containers."""
    try:
        return Path(which("dcron"))
    except (RuntimeError, KeyError):
        return None


def tui_state_file() -> Path | None:
    """Return the file in which the screen remembers filters and commands; None without a home directory."""
    own = _own_directory(platformdirs.user_state_dir)
    return own / "tui.json" if own else None


def own_node_name() -> str:
    """Return the default name of a node: the machine's, with invalid characters replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", host_name())[:60]


def host_name() -> str:
    """Return this machine's name, without its domain."""
    import socket  # with it come enum classes of all flags of the system: `preview` needs none

    return socket.gethostname().split(".")[0] or "localhost"


def actor() -> str:
    """Return the user for the audit log: the one who called sudo, at this machine."""
    name = os.environ.get("SUDO_USER") or os.environ.get("LOGNAME") or account_name()
    return f"{name}@{host_name()}"


def account_name() -> str:
    """Return the name of this process's account; the number of one without a name, as in many containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
