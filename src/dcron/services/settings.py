"""Read and change the settings that all users of a crontab share."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.errors import UsageError
from dcron.model import StoredSetting, Task
from dcron.schedule.zones import configured_zone, machine_zone
from dcron.services import recorded_values
from dcron.services.service import Service
from dcron.settings import labels as label_defaults
from dcron.settings.registry import (
    BY_LABELS,
    EXPECT,
    NOTIFY,
    SETTINGS,
    TIMEZONE,
    Setting,
    find,
    labels_of,
)
from dcron.store.tasks import settings
from dcron.values.unreadable import Unreadable


@dataclass(frozen=True)
class SettingValue:
    """A setting and its present value."""

    setting: Setting
    value: Any
    """None if it is not set."""
    changed_at: datetime | None = None
    changed_by: str | None = None

    @property
    def text(self) -> str | None:
        """The value as `config set` takes it; None if it is not set."""
        return None if self.value is None else self.setting.write(self.value)


@dataclass(frozen=True)
class ChosenZone:
    """The time zone of a new task, and where it comes from."""

    name: str
    origin: str
    """Ends a sentence: `the crontab's`, `the config file's`, `this machine's`."""
    is_shared: bool = False
    """Whether the new tasks of all users get it."""


class SharedSettings(Service):
    """The settings of a crontab. Every method is one transaction."""

    def every(self) -> list[SettingValue]:
        """Return all settings in the order of names, set or not; those for labels only where they are set."""
        with self.database.read() as connection:
            stored = {each.name: each for each in settings.every(connection)}
        names = {*SETTINGS, *(name for name in stored if labels_of(name)[0] in BY_LABELS)}
        return [_setting_value(find(name), stored.get(name)) for name in sorted(names)]

    def of_labels(self, task: Task) -> list[SettingValue]:
        """Return the settings that apply to the task because of its labels, where it says nothing itself."""
        with self.database.read() as connection:
            stored = {each.name: each for each in settings.every(connection)}
        names = label_defaults.applying(stored, task.labels)
        return [
            _setting_value(find(name), stored[name])
            for general, name in sorted(names.items())
            if not _says_itself(task, general)
        ]

    def get(self, name: str) -> SettingValue:
        """Return one setting. Raises UsageError for an unknown name."""
        setting = find(name)
        with self.database.read() as connection:
            return _setting_value(setting, settings.by_name(connection, setting.name))

    def set(self, name: str, text: str) -> SettingValue:
        """Set it for all users. Raises UsageError for an unknown name or an invalid value."""
        setting = find(name)
        value = setting.read(text)
        with self.database.write() as connection:
            now = self.database.now(connection)
            recorded_values.change(connection, self, "setting", setting.name, {"value": value})
        return SettingValue(setting, value, now, self.actor)

    def unset(self, name: str) -> bool:
        """Reset it to its default; return whether it was set. Raises UsageError for an unknown name."""
        name = find(name).name
        with self.database.write() as connection:
            return recorded_values.change(connection, self, "setting", name, None) is not None

    def new_task_zone(self, configured: str | None) -> ChosenZone:
        """Return the zone of a new task without one; `configured` is that of the config file.

        The environment is ignored: $TZ belongs to one user, and all users must get the same zone.
        Raises ZoneError.
        """
        with self.database.read() as connection:
            return new_task_zone(settings.by_name(connection, TIMEZONE.name), configured)


def new_task_zone(stored: StoredSetting | None, configured: str | None) -> ChosenZone:
    """Return the zone of a new task by the crontab's setting, else by the config file. Raises ZoneError."""
    if (shared := _setting_value(TIMEZONE, stored).value) is not None:
        return ChosenZone(shared, "the crontab's", is_shared=True)
    return zone_without_setting(configured)


def zone_without_setting(configured: str | None) -> ChosenZone:
    """Return the zone of a new task if the crontab has none of its own. Raises ZoneError."""
    if configured:
        return ChosenZone(configured_zone(configured), "the config file's")
    if found := machine_zone():
        return ChosenZone(found, "this machine's")
    return ChosenZone("UTC", "because this machine names none")


def _says_itself(task: Task, general: str) -> bool:
    """Return whether the task has a value of its own in place of this setting."""
    if general.startswith(EXPECT):
        return general.removeprefix(EXPECT) in task.expect
    field = "notify" if general == f"{NOTIFY}default" else general.replace(".", "_").replace("-", "_")
    return bool(getattr(task, field))


def _setting_value(setting: Setting, stored: StoredSetting | None) -> SettingValue:
    if stored is None:
        return SettingValue(setting, None)
    if isinstance(stored.value, Unreadable):
        raise UsageError(
            f"the setting {setting.name} is not JSON that can be read; `dcron config set` replaces it"
        )
    return SettingValue(setting, setting.read(stored.value), stored.changed_at, stored.changed_by)
