"""The options that say what is asked for a task's runs: retries, limits, where, how urgent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import typer

from dcron.errors import UsageError
from dcron.typed import span, wait

T = TypeVar("T")
PLAIN = ("overlap", "tries", "backoff_factor", "on_lost", "catch_up", "priority", "queue", "every_node")
"""Options whose values are those of the fields."""
WAITS = ("backoff", "backoff_max")
SPANS = ("deadline", "catch_up_window", "jitter")
"""Durations that can also be `none`."""
CLEARABLE = tuple(name.replace("_", "-") for name in (*PLAIN, *WAITS, *SPANS, "require", "need", "limit"))
TRIES_WHEN_LOST = 3


def _explain_after(value: str | None) -> None:
    """What a task comes after decides when it runs, so it is its schedule."""
    if value is not None:
        raise UsageError(
            f"--after: what a task comes after is its schedule; write '@after {value}' for the schedule"
            f" (`set`: --schedule '@after {value}')"
        )


@dataclass(frozen=True)
class PolicyOptions:
    """The options themselves; None is not given."""

    overlap: Annotated[
        Literal["skip", "queue", "replace"] | None,
        typer.Option(
            "--overlap",
            metavar="skip|queue|replace",
            help="A turn while --max-running are alive: skip it, let it wait, or stop the oldest for it.",
        ),
    ] = None
    tries: Annotated[
        int | None, typer.Option("--tries", metavar="N", help="Attempts in all when it fails; else 1.")
    ] = None
    backoff: Annotated[
        str | None, typer.Option("--backoff", metavar="1s", help="The wait before the second attempt.")
    ] = None
    backoff_factor: Annotated[
        float | None,
        typer.Option("--backoff-factor", metavar="2", help="How many times longer each further wait is."),
    ] = None
    backoff_max: Annotated[
        str | None, typer.Option("--backoff-max", metavar="1h", help="What no wait exceeds.")
    ] = None
    on_lost: Annotated[
        Literal["dead", "retry"] | None,
        typer.Option(
            "--on-lost",
            metavar="dead|retry",
            help="Its node died while it ran: tell people, or try it again like one that failed.",
        ),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option("--deadline", metavar="1h|none", help="Skip a turn not started so long after its time."),
    ] = None
    catch_up: Annotated[
        Literal["skip", "last", "all"] | None,
        typer.Option(
            "--catch-up", metavar="skip|last|all", help="Which missed turns to make up for; else the last."
        ),
    ] = None
    catch_up_window: Annotated[
        str | None,
        typer.Option("--catch-up-window", metavar="24h|none", help="How far back to make up for them."),
    ] = None
    jitter: Annotated[
        str | None,
        typer.Option("--jitter", metavar="30s|none", help="Spread its starts over so long."),
    ] = None
    priority: Annotated[
        Literal["high", "normal", "low"] | None,
        typer.Option("--priority", metavar="high|normal|low", help="Who goes first when slots are short."),
    ] = None
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Its queue, which may have a limit.")
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require", metavar="TAG", help="A tag its node must have: ssd, zone=eu-1; repeatable."
        ),
    ] = None
    every_node: Annotated[
        bool | None,
        typer.Option("--every-node/--no-every-node", help="Run each turn once on every node that may."),
    ] = None
    need: Annotated[
        list[str] | None,
        typer.Option("--need", metavar="gpu=1", help="What it takes of a node's capacity; repeatable."),
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="mem=2G",
            help="Hold the command to mem, cpu-time, files, procs, file-size or core; repeatable.",
        ),
    ] = None
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="TASK,TASK",
            help="Not an option: write '@after TASK,TASK' for the schedule.",
            hidden=True,
            is_eager=True,
            callback=_explain_after,
        ),
    ] = None

    def policies(self) -> dict[str, Any]:
        """The fields of a Definition that were given. Raises UsageError."""
        from dcron.quantities import parse_limit, parse_need

        read: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(PLAIN, _as_it_is),
            **dict.fromkeys(WAITS, wait),
            **dict.fromkeys(SPANS, span),
            "require": tuple,
            "need": parse_need,
            "limit": parse_limit,
        }
        given = {field: getattr(self, field) for field in read}
        # Options that may be repeated come as an empty list when they are not given.
        given = {field: value for field, value in given.items() if value is not None and value != []}
        return {field: named(field, read[field], value) for field, value in given.items()}


def named(field: str, read: Callable[[Any], T], value: Any) -> T:
    """What was read; a mistake is told with the option's name."""
    try:
        return read(value)
    except UsageError as error:
        raise UsageError(f"--{field.replace('_', '-')}: {error}") from None


def with_tries(said: dict[str, Any]) -> dict[str, Any]:
    """A new task that is to be tried again when it is lost needs tries; some, when none were named."""
    if said.get("on_lost") == "retry" and "tries" not in said:
        return {**said, "tries": TRIES_WHEN_LOST}
    return said


def _as_it_is(value: T) -> T:
    return value
