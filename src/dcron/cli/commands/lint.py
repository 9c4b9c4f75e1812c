"""`lint`: warn of probable mistakes in the shared crontab, or in a file before its import."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dcron import policy, services
from dcron.cli.asking.options import Db, FileFormat, Json, SelectorOption, argument, flag
from dcron.cli.asking.warnings import KEEP_WITHOUT_TIMEOUT
from dcron.cli.asking.which import read_selector
from dcron.cli.output import agenda, console
from dcron.cli.output.documents import make
from dcron.cli.output.progress import watched
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import CrontabFileError, ExitCode, UsageError
from dcron.model import Definition, Task
from dcron.presentation import humanize
from dcron.schedule.zones import zone
from dcron.values.safe_text import safe

if TYPE_CHECKING:
    from dcron.schedule.lint import Advice
    from dcron.sources import Place, SourceText

SUSPENDED, NO_CALENDAR, NO_CHANNEL, NO_UPSTREAM, CIRCLE, NOT_RUNNABLE, SECRET = (
    "suspended",
    "no-calendar",
    "no-channel",
    "no-upstream",
    "circle",
    "not-runnable",
    "secret-in-env",
)
"""Codes that only `lint` uses; the others are those of schedules."""


class LintWarning(NamedTuple):
    """A probable mistake; the task is None if it is about several."""

    task: str | None
    code: str
    message: str
    place: "Place | None" = None


def command(
    file: Annotated[
        str | None,
        argument("FILE|DIR|-", "Files to check: crontab, JSON, TOML [default: the shared crontab]."),
    ] = None,
    selector: SelectorOption = None,
    system: Annotated[
        bool, flag("--system", "Read an account in each line, as in /etc/crontab and /etc/cron.d.")
    ] = False,
    form: FileFormat = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Warn of valid tasks that are probably mistakes.

    \b
    dcron lint
    crontab -l | dcron lint -
    dcron lint --system /etc/crontab
    dcron lint cron/

    Checks every task of the shared crontab, or files before they are imported or applied. The exit code is 1
    if there are warnings, and 2 if a file cannot be read.
    """
    if file is not None and selector is not None:
        raise UsageError("a file takes no -l: it chooses tasks of the shared crontab")
    chooser = read_selector(selector)
    if file is not None:
        found = _of_source(_read(file, form, system=system))
    elif system or form:
        raise UsageError(f"{'--system' if system else '--format'} needs a file")
    else:
        found = _of_crontab(db, chooser)
    count = _print_json(found, with_place=file is not None) if as_json else _print(found, file)
    if count:
        raise typer.Exit(ExitCode.FAILED)


def _of_crontab(db: str | None, chooser: "policy.selectors.Selector | None") -> Iterator[LintWarning]:
    with opened_crontab(db) as crontab:
        now = crontab.now()
        every = list(watched(crontab.tasks(), "reading tasks"))
        tasks = [task for task in every if chooser is None or chooser.matches(task.labels)]
        settings = {
            each.setting.name: each.value for each in services.settings.SharedSettings(crontab).every()
        }
        unsendable = services.channels.Channels(crontab).unsendable(
            name for task in tasks for name in task.notify
        )
    rows_show_progress = console.is_terminal()
    for task in tasks if rows_show_progress else watched(tasks, "looking at tasks", len(tasks)):
        yield from _of_task(task, now)
        yield from _of_channels(task, unsendable)
        yield from _of_kept(task, settings)
        yield from _of_secrets(task)
    names = {task.name for task in tasks}
    yield from (each for each in _of_order(every) if each.task is None or each.task in names)
    yield from _of_all([task for task in tasks if task.enabled], now)


def _of_task(task: Task, now: datetime) -> Iterator[LintWarning]:
    if task.error:
        yield LintWarning(task.name, SUSPENDED, task.error)
    for name, content in (
        (task.except_calendar, task.except_content),
        (task.only_calendar, task.only_content),
    ):
        if name and content is None:
            yield LintWarning(
                task.name, NO_CALENDAR, f"there is no calendar {name!r}, so every run is skipped"
            )
    try:
        advice = _advice(task, now)
    except UsageError as error:
        if not task.error:  # else it is reported already
            yield LintWarning(task.name, SUSPENDED, str(error))
        return
    for each in advice:
        if not (task.once and each.code == "never-fires"):  # its only time is past, as intended
            yield LintWarning(task.name, each.code, each.message)


def _of_channels(task: Task, unsendable: Sequence[str]) -> Iterator[LintWarning]:
    """Yield the channels of the task by which no running agent can send."""
    for name in task.notify:
        if name in unsendable:
            yield LintWarning(
                task.name,
                NO_CHANNEL,
                f"no running agent can send to {name}: {policy.channels.advice([name])}",
            )


def _of_kept(task: Definition, settings: Mapping[str, Any]) -> Iterator[LintWarning]:
    """Yield that the command outlives the database without a timeout, by the task or by these settings."""
    if doubt := policy.starting.disconnect.endless(task, settings):
        yield LintWarning(task.name, KEEP_WITHOUT_TIMEOUT, doubt)


def _of_secrets(task: Definition) -> Iterator[LintWarning]:
    """Yield the variables that look like secrets: history keeps them, too."""
    for name in policy.secrets.secret_names(task.env or {}):
        yield LintWarning(
            task.name,
            SECRET,
            f"{name} looks like a secret, which all who may read the database see; let the command read it"
            f" from a file of its account, and remove it by `dcron db scrub --env {name}`",
        )


def _of_order(tasks: Sequence[Definition]) -> Iterator[LintWarning]:
    """Yield faults of dependencies that dcron refuses, but that the database may hold."""
    graph: dict[str, Sequence[str]] = {}
    for task in tasks:
        try:
            graph[task.name] = policy.starting.occurrences.schedule_of(task).after
        except UsageError:  # reported for the task itself
            graph[task.name] = ()
    for name, earlier in graph.items():
        for each in earlier:
            if each not in graph:
                yield LintWarning(
                    name, NO_UPSTREAM, f"@after {each}: there is no such task, so it never runs"
                )
    for cycle in policy.starting.dependencies.cycles(graph):
        yield LintWarning(None, CIRCLE, f"these tasks wait for each other: {' -> '.join(cycle)}")


def _of_all(tasks: Sequence[Definition], now: datetime) -> Iterator[LintWarning]:
    for each in agenda.advice(tasks, now):
        yield LintWarning(None, each.code, each.message)


def _of_source(source: "SourceText") -> Iterator[LintWarning]:
    now = datetime.now(UTC)
    found = [LintWarning(notice.task, notice.code, notice.message, notice.place) for notice in source.notices]
    for task in source.tasks:
        found += [each._replace(place=task.place) for each in _of_definition(task.definition, now)]
    files = {file: number for number, file in enumerate(source.files)}
    yield from sorted(found, key=lambda each: _order(each, files))
    definitions = [task.definition for task in source.tasks]
    bad = {each.task for each in found if each.code == NOT_RUNNABLE}
    # A missing upstream task may be one of the crontab, which is not known here.
    order = _of_order([definition for definition in definitions if definition.name not in bad])
    yield from (each for each in order if each.code == CIRCLE)
    yield from _of_all(definitions, now)


def _order(found: LintWarning, files: Mapping[str, int]) -> tuple[int, int]:
    return (files.get(found.place.file, -1), found.place.line) if found.place else (-1, 0)


def _of_definition(task: Definition, now: datetime) -> Iterator[LintWarning]:
    try:
        policy.validation.require_runnable(task)
    except UsageError as error:
        yield LintWarning(task.name, NOT_RUNNABLE, str(error))
        return
    for each in _advice(task, now):
        yield LintWarning(task.name, each.code, each.message)
    yield from _of_kept(task, {})
    yield from _of_secrets(task)


def _advice(task: Definition, now: datetime) -> "list[Advice]":
    from dcron.schedule.lint import advise

    return advise(
        policy.starting.occurrences.schedule_of(task),
        zone(task.timezone),
        now,
        policy.starting.occurrences.rules_of(task),
    )


def _read(file: str, form: FileFormat, *, system: bool) -> "SourceText":
    from dcron import sources

    path = Path(file)
    try:
        return sources.read(
            [path], timezone=own_zone(), format=form, system=system, needs_names=sources.is_directory(path)
        )
    except CrontabFileError as error:
        console.note(str(error))
        raise typer.Exit(ExitCode.USAGE) from None


def _print_json(found: Iterable[LintWarning], *, with_place: bool) -> int:
    shapes = [_shape(each, with_place=with_place) for each in found]
    console.emit_list(shapes)
    return len(shapes)


def _shape(found: LintWarning, *, with_place: bool) -> dict[str, Any]:
    place = {}
    if with_place:
        file, line = (found.place.file, found.place.line or None) if found.place else (None, None)
        place = {"line": line, "file": file}
    return make("finding", task=found.task, code=found.code, message=found.message, **place)


def _print(found: Iterable[LintWarning], file: str | None) -> int:
    count = 0
    for count, each in enumerate(found, 1):  # noqa: B007 - used below
        place = "" if file is None else f"{each.place or ('<stdin>' if file == '-' else file)}: "
        about = f"{each.task}: " if each.task else ""
        console.data(f"{safe(place)}{safe(about)}{safe(each.message)} [{each.code}]")
    console.note(humanize.plural(count, "warning") if count else "no warnings")
    return count
