"""`alerts`: what is wrong now."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Annotated

import typer

from dcron import policy, presentation, services
from dcron.cli.asking.options import (
    Db,
    Json,
    OptionalNames,
    SelectorOption,
    alert_number,
    flag,
    option,
    whole_number,
)
from dcron.cli.asking.which import read_selector
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import ExitCode
from dcron.presentation import alerts, humanize
from dcron.schedule.zones import zone

COLUMNS = [
    TableColumn("ALERT", right=True),
    TableColumn("SINCE", right=True),
    TableColumn("WHAT", least=12),
    TableColumn("IS", least=7),
    TableColumn("TIMES", right=True, spare=True),
    TableColumn("KNOWN TO", least=6, spare=True),
    TableColumn("CAUSE", least=12),
]


def command(
    names: OptionalNames = None,
    selector: SelectorOption = None,
    closed: Annotated[bool, flag("--all", "Also list alerts that are closed.")] = False,
    count: Annotated[int, option("-n", "--count", "N", "Most alerts to list.", parser=whole_number(1))] = 100,
    before: Annotated[
        int | None, option("--before", "ALERT", "Only older alerts than this.", parser=alert_number)
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List what is wrong now; `ack` says that you know.

    \b
    dcron alerts
    dcron alerts --all -n 20
    dcron alerts backup 'shop-*'
    dcron alerts -l team=shop
    dcron alerts > /dev/null || echo "something is wrong"

    The newest come first. The exit code is 1 if there are unacknowledged open alerts.
    """
    chooser = read_selector(selector, names)
    with opened_crontab(db) as crontab:
        if names:
            chooser = crontab.named(names)
        service, now = services.alerts.Alerts(crontab), crontab.now()
        found = service.page(closed=closed, before_id=before, limit=count + 1, selector=chooser)
        waiting = service.count_unacknowledged(chooser)
    shown = found[:count]
    if as_json:
        console.emit_list(json_output.alert_facts_shape(each, now) for each in shown)
    elif not print_table(COLUMNS, _rows(shown, now, zone(own_zone()))):
        console.note(_none(closed=closed, chosen=chooser is not None))
    if len(found) > count:
        console.note(f"there are more; --before {shown[-1].alert.id} continues")
    if waiting:
        raise typer.Exit(ExitCode.FAILED)


def _none(*, closed: bool, chosen: bool) -> str:
    of_tasks = " of these tasks" if chosen else ""
    return f"no alerts{of_tasks}" if closed else f"nothing is wrong: there are no open alerts{of_tasks}"


def _rows(
    found: "Sequence[policy.alert_facts.AlertFacts]", now: datetime, here: tzinfo
) -> Iterator[list[str]]:
    for facts in found:
        alert = facts.alert
        word = alerts.word(alert.kind)
        is_new = alert.closed_at is None and not alerts.is_acknowledged(alert, now)
        yield [
            str(alert.id),
            humanize.clock(alert.opened_at, here, now),
            alerts.name(alert),
            AlarmCell(word) if is_new else f"was {word}" if alert.closed_at else word,
            f"{alert.times:,}",
            "" if is_new else alert.acknowledged_by or "",
            _cause(facts, now, here),
        ]


def _cause(facts: "policy.alert_facts.AlertFacts", now: datetime, here: tzinfo) -> str:
    alert = facts.alert
    known = presentation.blame.of(facts)
    parts = [alerts.cause(facts, now), known.sentence if known else ""]
    if alert.closed_at:
        why = f", when it was {alert.closed_as}" if alerts.is_abandoned(alert) else ""
        parts = [f"until {humanize.clock(alert.closed_at, here, now)}{why}", parts[0]]
    return "; ".join(filter(None, (*parts, alert.acknowledged_note)))
