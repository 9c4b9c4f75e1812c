"""The settings that all users of a crontab share: a service beside the crontab's."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.errors import UsageError
from dcron.model import StoredSetting
from dcron.schedule import configured_zone, machine_zone
from dcron.services.service import Service
from dcron.settings import SETTINGS, TIMEZONE, Setting, find
from dcron.store import settings
from dcron.unreadable import Unreadable


@dataclass(frozen=True)
class SettingValue:
    """A setting with the value that holds."""

    setting: Setting
    value: Any
    """None while it is not set."""
    changed_at: datetime | None = None
    changed_by: str | None = None

    @property
    def text(self) -> str | None:
        """The value as `config set` takes it; None while it is not set."""
        return None if self.value is None else self.setting.write(self.value)


@dataclass(frozen=True)
class ChosenZone:
    """The time zone of a new task, and where it comes from."""

    name: str
    origin: str
    """Ends a sentence: `the crontab's`, `the config file's`, `this machine's`."""
    is_shared: bool = False
    """Whether everybody's new tasks get it."""


class SharedSettings(Service):
    """The settings of a crontab. Every method is one transaction."""

    def every(self) -> list[SettingValue]:
        """Return all settings there are, in the order of names, set or not."""
        with self.database.read() as connection:
            stored = {each.name: each for each in settings.every(connection)}
        return [_held(SETTINGS[name], stored.get(name)) for name in sorted(SETTINGS)]

    def get(self, name: str) -> SettingValue:
        """Return one setting. Raises UsageError for a name that no setting has."""
        setting = find(name)
        with self.database.read() as connection:
            return _held(setting, settings.by_name(connection, name))

    def set(self, name: str, text: str) -> SettingValue:
        """Set it for all users. Raises UsageError for an unknown name or a bad value."""
        setting = find(name)
        value = setting.read(text)
        with self.database.write() as connection:
            now = self.database.now(connection)
            settings.put(connection, name, value, now, self.actor)
        return SettingValue(setting, value, now, self.actor)

    def unset(self, name: str) -> bool:
        """Let the default hold; return whether it was set. Raises UsageError for an unknown name."""
        find(name)
        with self.database.write() as connection:
            return settings.remove(connection, name)

    def new_task_zone(self, configured: str | None) -> ChosenZone:
        """Return the zone of a new task that names none; `configured` is that of the config file.

        The environment has no say ($TZ is one person's), so two people get the same. Raises ZoneError.
        """
        if (held := self.get(TIMEZONE.name)).value is not None:
            return ChosenZone(held.value, "the crontab's", is_shared=True)
        return zone_without_setting(configured)


def zone_without_setting(configured: str | None) -> ChosenZone:
    """Return the zone of a new task while the crontab has none of its own. Raises ZoneError."""
    if configured:
        return ChosenZone(configured_zone(configured), "the config file's")
    if found := machine_zone():
        return ChosenZone(found, "this machine's")
    return ChosenZone("UTC", "for this machine names none")


def _held(setting: Setting, stored: StoredSetting | None) -> SettingValue:
    if stored is None:
        return SettingValue(setting, None)
    if isinstance(stored.value, Unreadable):
        raise UsageError(
            f"the setting {setting.name} is not JSON that can be read; `dcron config set` sets it anew"
        )
    return SettingValue(setting, setting.read(stored.value), stored.changed_at, stored.changed_by)
