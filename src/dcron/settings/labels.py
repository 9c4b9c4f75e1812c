"""Settings for tasks with certain labels, such as `notify.default[team=shop]`, instead of general ones."""

from collections.abc import Mapping
from typing import Any

from dcron.settings.registry import labels_of


def applying(settings: Mapping[str, Any], labels: Any) -> dict[str, str]:
    """Return the names of the settings that apply to a task by its labels, by the general setting's name.

    Of several, the one with the most labels applies; of as many, the first by name. `labels` that cannot be
    read are none.
    """
    found: dict[str, tuple[int, str]] = {}
    has = labels if isinstance(labels, Mapping) else {}
    for name in settings:
        general, needed = labels_of(name)
        if needed and all(has.get(key) == value for key, value in needed.items()):
            rank = (-len(needed), name)
            found[general] = min(rank, found.get(general, rank))
    return {general: name for general, (_, name) in found.items()}


def for_labels(settings: Mapping[str, Any], labels: Any) -> Mapping[str, Any]:
    """Return the settings as they are for a task with these labels."""
    names = applying(settings, labels)
    return {**settings, **{general: settings[name] for general, name in names.items()}} if names else settings
