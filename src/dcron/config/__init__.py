"""What this machine says: its configuration files, its channels, and whom it trusts."""

from typing import TYPE_CHECKING

from dcron.lazy import submodules

if TYPE_CHECKING:
    from dcron.config import channels, files, policy_file, trust
else:
    __getattr__ = submodules(__name__)
