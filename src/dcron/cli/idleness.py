"""Whether anybody is there to run what the verbs list, make or change."""

from typing import TYPE_CHECKING

from dcron.cli import console

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


def why_idle(crontab: "Crontab") -> str | None:
    """Why nobody takes any run at all; None when somebody may."""
    from dcron import policy
    from dcron.services.fleet import Fleet

    living = Fleet(crontab).living()
    until = "one of them is started again" if living else "one does (`dcron agent`)"
    nobody = policy.idle(living)
    return f"{nobody}: nothing starts until {until}" if nobody else None


def mention_idleness(crontab: "Crontab") -> None:
    """Say so where nobody takes what was made."""
    if told := why_idle(crontab):
        console.note(told)
