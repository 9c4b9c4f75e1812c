"""What is declared of a task field, and what follows from it."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from dcron.fields.kinds import Kind
from dcron.model import REQUIRED_FIELDS, SPEC_DEFAULTS, Definition

Group = Literal["what", "when", "limits", "retries", "where", "alerts"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""The order of the help's sections and of the form's."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a task, and all that its users need to know of it."""

    name: str
    """The attribute of Definition, and the column."""
    group: Group
    kind: Kind
    help: str
    """One sentence, without its period."""
    example: str = ""
    """What to write, as the form shows it."""
    metavar: str = ""
    """What to write, as the command line's help shows it; by default the choices."""
    key: str = ""
    """The name in directives and in JSON; by default that of the field."""
    directive: str = ""
    """The name in directives; by default the key."""
    option: str = ""
    """The option's name without its dashes; by default the key."""
    short: str = ""
    """The option's letter, with its dash."""
    title: str = ""
    """The label in the form; by default the option's name."""
    default_text: str = ""
    """What applies when nothing is given, where the value of Definition does not say it."""
    phrase: str = ""
    """The value in a sentence about the task, where one without a default says so: `stopped after {}`."""
    fact: str = ""
    """The label of such a sentence; by default the title."""
    details: str = ""
    """Further sentences for the table in docs/cli.md."""
    is_option: bool = True
    """Whether it is one of the options that `add`, `at` and `set` share."""
    is_rule: bool = False
    """Whether it decides which occurrences a schedule has, so that `preview` takes it, too."""
    cron_may_ignore: bool = False
    """A plain cron that ignores it runs the same command, as the same user, in the same place."""

    def __post_init__(self) -> None:
        """Fill in the names that are not given."""
        defaults = {
            "key": self.name,
            "directive": self.key or self.name,
            "metavar": "|".join(self.kind.choices),
        }
        defaults["option"] = (self.key or self.name).replace("_", "-")
        defaults["title"] = (self.option or defaults["option"]).replace("-", " ")
        defaults["fact"] = self.title or defaults["title"]
        for name, value in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    @property
    def default(self) -> Any:
        """The value of a task to which none is given; None for a required one."""
        return SPEC_DEFAULTS[self.name]

    @property
    def type(self) -> Any:
        """The type that Definition declares."""
        return Definition.__dataclass_fields__[self.name].type

    @property
    def is_clearable(self) -> bool:
        """Whether `set --clear` can put it back to its default."""
        return self.is_option and self.name not in REQUIRED_FIELDS

    @property
    def shown_default(self) -> str:
        """What applies when nothing is given, for people; empty where that goes without saying."""
        if self.default_text or self.default in (None, (), {}, False):
            return self.default_text
        return self.kind.format(self.default)

    @property
    def option_help(self) -> str:
        """The help of the option: a sentence that ends with its default."""
        return f"{self.help} [default: {self.shown_default}]." if self.shown_default else f"{self.help}."

    @property
    def hint(self) -> str:
        """What the form shows for it, on one line."""
        return f"{self.help}: {self.example}" if self.example else self.help

    def is_given(self, task: Definition) -> bool:
        """Return whether the task has another value than the default."""
        return bool(getattr(task, self.name) != self.default)
