"""Changes of the crontab: what is wanted, compared, agreed to and written."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.services.changes import applied, changeset, imported, restored, source_plan, text_edits
else:
    __getattr__ = submodules(__name__)
