"""Tasks as people read and change them."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.services.tasks import rows, tasks
else:
    __getattr__ = submodules(__name__)
