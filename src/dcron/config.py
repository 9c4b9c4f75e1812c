"""Where dcron finds its settings: option, environment, config file, default, in that order."""

import os
import pwd
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from dcron.errors import UsageError

SITE_CONFIG = Path("/etc/dcron/config.toml")


@dataclass(frozen=True)
class TuiConfig:
    """What `[tui]` says of the screen; the screen knows what may be said."""

    theme: str | None = None
    glyphs: str | None = None
    mouse: bool = True
    keys: Mapping[str, str] = field(default_factory=dict)
    """From the name of a key binding to the keys it shall have: `[tui.keys]`."""


@dataclass(frozen=True)
class Config:
    """What the config file says; None where it is silent."""

    database: str | None = None
    timezone: str | None = None
    """The zone of new tasks that name none."""
    agent_name: str | None = None
    spool: Path | None = None
    """Where an agent keeps output and results until the database has them."""
    tui: TuiConfig = TuiConfig()


def config_path() -> Path:
    """The config file in force: $DCRON_CONFIG, else the user's if it exists, else the machine's."""
    if chosen := os.environ.get("DCRON_CONFIG"):
        return Path(chosen)
    personal = Path(platformdirs.user_config_dir("dcron")) / "config.toml"
    return personal if personal.exists() else SITE_CONFIG


def load_config() -> Config:
    """Read the config file; a missing one is an empty one. Raises UsageError for a bad one."""
    path = config_path()
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if "DCRON_CONFIG" in os.environ:
            raise UsageError(f"the config file {path} ($DCRON_CONFIG) does not exist") from None
        return Config()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read the config file {path}: {error}") from None
    return _config_from(content, path)


def _config_from(content: dict[str, Any], path: Path) -> Config:
    agent = content.get("agent", {})
    known = {"database", "timezone", "agent", "tui"}
    if unknown := set(content) - known:
        raise UsageError(
            f"{path}: unknown setting {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}"
        )
    if not isinstance(agent, dict) or set(agent) - {"name", "spool"}:
        raise UsageError(f"{path}: [agent] takes only the settings name and spool")
    values = [content.get("database"), content.get("timezone"), agent.get("name"), agent.get("spool")]
    if bad := [value for value in values if value is not None and not isinstance(value, str)]:
        raise UsageError(f"{path}: {bad[0]!r} is not a text in quotes")
    database, timezone, name, spool = values
    return Config(database, timezone, name, Path(spool) if spool else None, _tui_from(content, path))


def _tui_from(content: dict[str, Any], path: Path) -> TuiConfig:
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
    return TuiConfig(tui.get("theme"), tui.get("glyphs"), mouse, keys)


def database_url(option: str | None, config: Config) -> str:
    """The database in force: --db, $DCRON_DB, the config file, SQLite in the user's data directory."""
    chosen = option or os.environ.get("DCRON_DB") or config.database
    return chosen or f"sqlite:///{own_database()}"


def own_database() -> Path:
    """The SQLite file of somebody who has named no database; its directory is made on first use."""
    return Path(platformdirs.user_data_dir("dcron")) / "dcron.db"


def spool_directory(config: Config) -> Path:
    """Where an agent on this machine keeps what the database does not have yet."""
    if chosen := os.environ.get("DCRON_SPOOL"):
        return Path(chosen)
    return config.spool or Path(platformdirs.user_state_dir("dcron")) / "spool"


def own_node_name() -> str:
    """The name of a node that was given none: the machine's, as far as a node can be called so."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", host_name())[:60]


def host_name() -> str:
    """This machine's name, without its domain."""
    return socket.gethostname().split(".")[0] or "localhost"


def actor() -> str:
    """Who is acting, for the record of changes: the person behind sudo, at this machine."""
    name = os.environ.get("SUDO_USER") or os.environ.get("LOGNAME") or account_name()
    return f"{name}@{host_name()}"


def account_name() -> str:
    """Return the name of this process's account; the number of one without a name, as in many containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
