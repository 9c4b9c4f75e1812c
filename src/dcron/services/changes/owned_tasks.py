"""Whether people may change the tasks that a source owns, where the next apply would find a conflict."""

from collections.abc import Iterable

from sqlalchemy import Connection

from dcron.errors import Refused
from dcron.model import Task
from dcron.policy.ownership import is_owned
from dcron.settings.registry import OWNED_EDITS, REFUSE
from dcron.store.tasks import settings


def require_changes_allowed(connection: Connection, changed: Iterable[Task]) -> None:
    """Raise Refused if one of these tasks is owned, and the setting `edits.owned` refuses changes of it.

    The setting is read only if a task is owned.
    """
    task = next((task for task in changed if is_owned(task)), None)
    if task is None:
        return
    setting = settings.by_name(connection, OWNED_EDITS.name)
    if setting is not None and setting.value == REFUSE:
        raise Refused(
            f"{task.name} belongs to {task.source}, so it is changed there and applied: the setting"
            f" {OWNED_EDITS.name} refuses other changes"
        )
