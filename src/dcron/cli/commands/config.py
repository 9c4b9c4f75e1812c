"""`config`: manage the settings that all users of the crontab share."""

from typing import Annotated, Any

from dcron import services
from dcron.cli.asking import warnings
from dcron.cli.asking.options import Db, Group, GuardedWritingVerb, Json, Verb, WritingVerb, argument, group
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab
from dcron.values.json_values import number

COLUMNS = [
    TableColumn("SETTING"),
    TableColumn("VALUE", least=8),
    TableColumn("CHANGED BY", spare=True),
    TableColumn("HELP"),
]
Name = Annotated[str, argument("SETTING", "Name of the setting, as `dcron config list` shows it.")]


class Settings(Group):
    """`config keep.runs` is `config get keep.runs`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that was typed; the name of a setting shows it."""
        from dcron.settings.registry import SETTINGS

        is_setting = args[0].partition("[")[0] in SETTINGS
        return super().resolve_command(ctx, ["get", *args] if is_setting else args)


command = group("Manage the settings that all users of the crontab share.", Settings)


@command.command("list", cls=Verb)
def list_settings(as_json: Json = False, db: Db = None) -> None:
    """List the settings and their defaults."""
    with opened_crontab(db) as crontab:
        found = services.settings.SharedSettings(crontab).every()
    if as_json:
        console.emit_list(map(_shape, found))
    else:
        print_table(COLUMNS, map(_row, found))


@command.command("get", cls=Verb)
def get_setting(name: Name, as_json: Json = False, db: Db = None) -> None:
    """Print the value of a setting, also one that is not set.

    \b
    dcron config get timezone
    """
    with opened_crontab(db) as crontab:
        current = services.settings.SharedSettings(crontab).get(name)
    if as_json:
        console.emit(_shape(current))
    elif current.text is None:
        console.note(f"{current.setting.name} is not set: {current.setting.unset}")
    else:
        console.data(current.text)


@command.command("set", cls=WritingVerb)
def set_setting(
    name: Name,
    value: Annotated[str, argument("VALUE", "New value.")],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Change a setting for all users of the crontab.

    \b
    dcron config set timezone Europe/Berlin
    dcron config set keep.runs 90d
    dcron config set 'notify[team=shop]' ops-shop

    Existing tasks do not change. A shorter `keep.*` deletes history soon: it shows how much, and asks first.
    """
    with opened_crontab(db, creates=True) as crontab:
        console.agree(f"set {name} to {value}", asks=_prunes_more(crontab, name, value))
        current = services.settings.SharedSettings(crontab).set(name, value)
        _warn_of_channels(crontab, current)
    if as_json:
        console.emit(_shape(current))
    else:
        console.data(f"{current.setting.name}: {current.text}")


def _warn_of_channels(crontab: "services.crontab.Crontab", current: "services.settings.SettingValue") -> None:
    """Print a warning if the setting names a channel by which no running agent can send."""
    name, value = current.setting.name, current.value
    if name.startswith(("notify.default", "notify.fallback")):
        channels = [value] if isinstance(value, str) else value
        warnings.print_unsendable(channels, warnings.living_nodes(crontab))


def _prunes_more(crontab: "services.crontab.Crontab", name: str, value: str) -> bool:
    """Return whether history goes because it is kept for a shorter time, and say how much."""
    from dcron.cli.commands.prune import amounts, others
    from dcron.settings.registry import find

    if not name.startswith("keep."):
        return False
    amount = services.retention.Retention(crontab).shortened(
        name.removeprefix("keep."), find(name).read(value)
    )
    if amount is None or amount.is_nothing:
        return False
    least = " or more" if amount.runs + amount.outputs >= services.retention.MOST_COUNTED else ""
    parts = [*amounts(amount), *others(amount.others)]
    console.note(f"with {name} {value}, {', '.join(parts)}{least} will be pruned")
    return True


@command.command("unset", cls=GuardedWritingVerb)
def unset_setting(name: Name, as_json: Json = False, db: Db = None) -> None:
    """Reset a setting to its default."""
    with opened_crontab(db) as crontab:
        settings = services.settings.SharedSettings(crontab)
        console.agree(f"unset {name}", asks=False)
        was_set = settings.unset(name)
        current = settings.get(name)
    if as_json:
        console.emit(_shape(current))
    elif was_set:
        console.data(f"{name}: not set; {current.setting.unset}")
    else:
        console.note(f"{name} was not set")


def _row(current: "services.settings.SettingValue") -> list[str]:
    value = current.text if current.text is not None else f"not set: {current.setting.unset}"
    return [current.setting.name, value, current.changed_by or "", current.setting.help]


def _shape(current: "services.settings.SettingValue") -> dict[str, Any]:
    return make("setting", current, value=number(current.value))
