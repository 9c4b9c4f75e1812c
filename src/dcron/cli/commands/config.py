"""`config`: manage the settings that all users of the crontab share."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Force, Json, Verb, WritingVerb, group
from dcron.cli.tables import TableColumn, print_table

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.services.settings import SettingValue


COLUMNS = [
    TableColumn("SETTING"),
    TableColumn("VALUE", least=8),
    TableColumn("CHANGED BY", spare=True),
    TableColumn("HELP"),
]


Name = Annotated[
    str,
    typer.Argument(
        metavar="SETTING", help="Name of the setting, as `dcron config list` shows it.", show_default=False
    ),
]


command = group("Manage the settings that all users of the crontab share.")


@command.command("list", cls=Verb)
def list_settings(as_json: Json = False, db: Db = None) -> None:
    """List the settings and their defaults."""
    from dcron.services.settings import SharedSettings

    with opened_crontab(db) as crontab:
        found = SharedSettings(crontab).every()
    if as_json:
        console.emit_list(map(_shape, found))
    else:
        print_table(COLUMNS, map(_row, found))


@command.command("set", cls=WritingVerb)
def set_setting(
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="New value.", show_default=False)],
    force: Force = False,
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
    from dcron.services.settings import SharedSettings

    with opened_crontab(db, creates=True) as crontab:
        if name.startswith("keep."):
            _confirm_shorter(crontab, name, value, force=force)
        current = SharedSettings(crontab).set(name, value)
        _warn_of_channels(crontab, current)
    if as_json:
        console.emit(_shape(current))
    else:
        console.data(f"{current.setting.name}: {current.text}")


def _warn_of_channels(crontab: "Crontab", current: "SettingValue") -> None:
    """Print a warning if the setting names a channel by which no running agent can send."""
    from dcron.cli import warnings

    name, value = current.setting.name, current.value
    if name.startswith(("notify.default", "notify.fallback")):
        channels = [value] if isinstance(value, str) else value
        warnings.print_unsendable(channels, warnings.living_nodes(crontab))


def _confirm_shorter(crontab: "Crontab", name: str, value: str, *, force: bool) -> None:
    """Say what goes if history is kept for a shorter time, and ask. Raises Refused."""
    from dcron.cli.commands.prune import amounts, others
    from dcron.services.retention import MOST_COUNTED, Retention
    from dcron.settings import find

    amount = Retention(crontab).shortened(name.removeprefix("keep."), find(name).read(value))
    if amount is None or amount.is_nothing:
        return
    least = " or more" if amount.runs + amount.outputs >= MOST_COUNTED else ""
    parts = [*amounts(amount), *others(amount.others)]
    console.note(f"with {name} {value}, {', '.join(parts)}{least} will be pruned")
    console.require_consent(f"set {name} to {value}", force=force)


@command.command("unset", cls=WritingVerb)
def unset_setting(name: Name, as_json: Json = False, db: Db = None) -> None:
    """Reset a setting to its default."""
    from dcron.services.settings import SharedSettings

    with opened_crontab(db) as crontab:
        settings = SharedSettings(crontab)
        was_set = settings.unset(name)
        current = settings.get(name)
    if as_json:
        console.emit(_shape(current))
    elif was_set:
        console.data(f"{name}: not set; {current.setting.unset}")
    else:
        console.note(f"{name} was not set")


def _row(current: "SettingValue") -> list[str]:
    value = current.text if current.text is not None else f"not set: {current.setting.unset}"
    return [current.setting.name, value, current.changed_by or "", current.setting.help]


def _shape(current: "SettingValue") -> dict[str, Any]:
    from dcron.json_values import instant

    return {
        "name": current.setting.name,
        "value": current.value,
        "help": current.setting.help,
        "changed_at": instant(current.changed_at),
        "changed_by": current.changed_by,
    }
