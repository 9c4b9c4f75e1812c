"""The registry of task fields: what each is called, how it is typed, shown and checked."""

from dcron.fields.field import GROUPS, Field
from dcron.fields.registry import BY_DIRECTIVE, BY_KEY, BY_NAME, CLEARABLE, FIELDS, OPTIONS

__all__ = ["BY_DIRECTIVE", "BY_KEY", "BY_NAME", "CLEARABLE", "FIELDS", "GROUPS", "OPTIONS", "Field"]
