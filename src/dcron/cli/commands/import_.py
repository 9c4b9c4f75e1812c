"""`import`: add the tasks of a crontab file."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron import policy, services
from dcron.cli.asking.import_source import Origin, doubts_about, origin_of, require_system
from dcron.cli.asking.options import Db, Json
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.task_differences import show
from dcron.cli.running.context import missing_file, new_task_zone, opened_crontab, own_zone
from dcron.errors import CrontabFileError, Refused, UsageError
from dcron.model import Definition, Task
from dcron.presentation import humanize
from dcron.values.text_input import read_text

if TYPE_CHECKING:
    from dcron.crontabfile import CrontabFile


SHOWN = 20
"""Names of one kind that are printed; further ones are counted."""


NAMED = 5
"""Names within a sentence."""


WIDEST = 40
"""Cells of a name beyond which accounts are not aligned."""


SENDMAIL = "/usr/sbin/sendmail"
"""Without it, cron mails nothing."""


Warned = tuple[int | None, str]
"""A line of the file, or None, and a warning about it."""


def command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="Crontab file, or - for stdin.", show_default=False),
    ],
    system: Annotated[
        bool,
        typer.Option("--system", help="Read an account in each line, as in /etc/crontab and /etc/cron.d."),
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="USER", help="Account of the tasks [default: the owner of a file in cron's spool]."
        ),
    ] = None,
    every_node: Annotated[
        bool, typer.Option("--every-node", help="Run each task on every node, not on one of them.")
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Run the tasks only on nodes with this tag; repeatable."),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Prefix of every name, such as web2-.", show_default=False),
    ] = "",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Also change tasks of the same names from other sources.")
    ] = False,
    no_mail: Annotated[
        bool, typer.Option("--no-mail", help="Mail no output: MAILTO is a variable only.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Import a crontab file.

    \b
    crontab -l | dcron import - --user deploy
    dcron import /var/spool/cron/crontabs/deploy
    dcron import --system /etc/cron.d/sysstat --every-node --dry-run

    Adds new tasks, changes tasks that an earlier import of the same file added, and removes nothing. Changes
    are shown before you are asked. If another source has a task of the same name, a number is added to the
    name. If one line is bad, nothing is imported. What a task prints is mailed to its MAILTO, if a node can
    send mail.
    """
    from dcron.crontabfile import MAX_BYTES

    if system and user is not None:
        raise UsageError("--user: each line of a system file names its account; leave out --user or --system")
    origin = origin_of(file, user)
    text = read_text(file, "import", MAX_BYTES)

    def read_in(zone: str) -> "CrontabFile":
        return _read(file, text, zone, system=system, mail_output=not no_mail)

    def attempt(
        crontab: "services.crontab.Crontab",
        agreed: "services.changes.imported.Imported | None",
        *,
        dry_run: bool = dry_run,
    ) -> "services.changes.imported.Imported":
        is_root = os.geteuid() == 0
        return crontab.import_tasks(
            tasks, origin.source, prefix=prefix, adopt=adopt, by_root=is_root, agreed=agreed, dry_run=dry_run
        )

    if missing_file(db):
        read_in(own_zone())  # a bad file creates no crontab
    with opened_crontab(db, creates=True, dry_run=dry_run) as crontab:
        content = read_in(new_task_zone(crontab).name)
        if not content.system:
            require_system(file)
        tasks = [
            _placed(task, origin.user, every_node=every_node, tags=require or [])
            for task in content.definitions
        ]
        with _located(content, _name_of(file)):
            done = attempt(crontab, None) if dry_run else _agreed(crontab, attempt, file, as_json=as_json)
        if dry_run and not as_json:
            show(done.changes, crontab.now())
        unsendable = _unsendable(crontab, tasks)
    warnings = [*_warnings(content, tasks, done, file), *_about_mail(content, unsendable, no_mail=no_mail)]
    if as_json:
        console.emit(_shape(done, origin, warnings))
    else:
        _show(done, dry_run=dry_run)
    for line, message in warnings:
        console.note(f"{_name_of(file)}:{'' if line is None else f'{line}:'} warning: {message}")


def _read(file: str, text: str, timezone: str, *, system: bool, mail_output: bool) -> "CrontabFile":
    """Return the contents of the file. Raises BadFile with all bad lines, those of single tasks too."""
    from dcron.crontabfile import BadFile, read
    from dcron.sources.formats import format_of

    name = _name_of(file)
    if (form := format_of(Path(file), text)) != "text":
        raise UsageError(f"{name} is {form.upper()}: `dcron apply -F {file}` reads it, import reads crontabs")
    try:
        return read(text, source=name, timezone=timezone, system=system, mail_output=mail_output)
    except BadFile as bad:
        lines = {task.name: line for line, task in bad.readable.items()}
        others = services.changes.imported.problems_of(list(bad.readable.values()), datetime.now(UTC))
        found = [*bad.found, *((lines[task], 1, problem) for task, problem in others.items())]
        raise BadFile(name, sorted(found), bad.rest) from None


def _name_of(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _placed(task: Definition, user: str | None, *, every_node: bool, tags: list[str]) -> Definition:
    """Return the task with the options of the command line; its own options take precedence."""
    return replace(
        task,
        user=user if task.user is None else task.user,
        every_node=task.every_node or every_node,
        require=(*task.require, *(tag for tag in dict.fromkeys(tags) if tag not in task.require)),
    )


@contextmanager
def _located(content: "CrontabFile", source: str) -> Iterator[None]:
    """Add the file and line to problems of tasks; before a refusal, print the warnings about the file."""
    try:
        yield
    except Refused:
        for notice in content.warnings:
            console.note(f"{source}:{notice.line}: warning: {notice.message}")
        raise
    except services.changes.imported.InvalidTasks as bad:
        places = sorted((content.lines.get(name, 1), problem) for name, problem in bad.problems.items())
        text = "\n".join(f"{source}:{line}:1: {problem}" for line, problem in places)
        raise CrontabFileError(text) from None


def _agreed(
    crontab: "services.crontab.Crontab",
    attempt: Callable[..., "services.changes.imported.Imported"],
    file: str,
    *,
    as_json: bool,
) -> "services.changes.imported.Imported":
    """Import; if tasks would change, show the changes and ask first. Raises Refused if the answer is no."""
    if console.consent.is_given(asks=True):
        return attempt(crontab, None)
    if console.consent.is_protected:
        planned = attempt(crontab, None, dry_run=True)
        if not (planned.added or planned.changed):
            return planned
    else:
        try:
            return attempt(crontab, services.changes.imported.Imported((), (), ()))
        except services.changes.imported.NotAgreed as error:
            planned = error.imported
    crontab.database.close()  # no connection idles while the user decides; the next statement opens one
    if not as_json:
        show(planned.changes, crontab.now())
    console.agree(f"import {_name_of(file)}: {_counts(planned)}")
    return attempt(crontab, planned)


def _counts(done: "services.changes.imported.Imported", would: str = "") -> str:
    return (
        f"{len(done.added):,} {would}added, {len(done.changed):,} {would}changed,"
        f" {len(done.unchanged):,} unchanged"
    )


def _show(done: "services.changes.imported.Imported", *, dry_run: bool) -> None:
    for kind, names in (("added", done.added), ("changed", done.changed)):
        width = min(WIDEST, max(map(len, names[:SHOWN]), default=0))
        for name in names[:SHOWN]:
            account = done.accounts[name]
            console.data(f"{kind:<9}  {name:<{width}}  as {account or 'the account of its agent'}")
        if len(names) > SHOWN:
            console.data(f"{kind:<9}  … and {len(names) - SHOWN:,} more")
    console.data(_counts(done, "would be " if dry_run else ""))


def _shape(
    done: "services.changes.imported.Imported", origin: Origin, warnings: list[Warned]
) -> dict[str, Any]:
    found = [make("finding", line=line, message=message) for line, message in warnings]
    return make("imported", done, source=origin.source, warnings=found)


def _warnings(
    content: "CrontabFile", tasks: list[Definition], done: "services.changes.imported.Imported", file: str
) -> Iterator[Warned]:
    """Yield warnings about an import that was done; those about lines of the file come first."""
    yield from ((notice.line, notice.message) for notice in content.warnings)
    named = {new: content.lines.get(old) for old, new in done.renamed.items()}
    lines = {**content.lines, **named}
    for name in done.expired:
        yield lines.get(name), f"{name}: its last time has passed, so it will not run"
    for name, reason in done.paused.items():
        yield lines.get(name), f"{name} is imported paused: {reason}"
    yield from _about_kept(tasks, lines)
    yield from _about_names(content, done)
    yield from _about_left(done, _name_of(file))
    if content.system:
        yield from _about_hosts(content, tasks, done, file)
    yield from _about_accounts(done)


def _about_kept(tasks: list[Definition], lines: Mapping[str, int | None]) -> Iterator[Warned]:
    """Yield warnings about tasks whose commands outlive the database without a timeout."""
    for task in tasks:
        if doubt := policy.starting.disconnect.endless(task):
            yield lines.get(task.name), f"{task.name}: {doubt}"


def _about_names(content: "CrontabFile", done: "services.changes.imported.Imported") -> Iterator[Warned]:
    """Yield warnings about tasks of other sources with the same names: first those that differ."""
    finals = {name: done.renamed.get(name, name) for name in done.others}
    same = [other for name, other in done.others.items() if finals[name] == other.name]
    different = [(name, other) for name, other in done.others.items() if finals[name] != other.name]
    for name, other in different[:SHOWN]:
        message = f"{other.name} is another task ({_origin(other)}), so this one is {done.renamed[name]}"
        yield content.lines[name], message
    if len(different) > SHOWN:
        yield None, f"{len(different) - SHOWN:,} more tasks got numbers, because other tasks have their names"
    if same:
        named = humanize.first_few([other.name for other in same], NAMED)
        yield (
            None,
            f"{len(same):,} already there as equal tasks ({named}; {_origin(same[0])}): each remains ONE task"
            " for all hosts; --every-node runs it on each host, --prefix adds a separate task",
        )


def _about_left(done: "services.changes.imported.Imported", file: str) -> Iterator[Warned]:
    """Yield warnings about tasks that a file no longer has; an import removes nothing."""

    for source, names in done.left.items():
        are, stay = ("is", "stays") if len(names) == 1 else ("are", "stay")
        of = f"{humanize.plural(len(names), 'task')} of {source}"
        remedy = f"`dcron rm {names[0]}` removes {'it' if len(names) == 1 else 'one'}"
        yield (
            None,
            f"{of} {are} not in {file} and {stay} as before: {humanize.first_few(names, NAMED)}; {remedy}",
        )


def _origin(task: Task) -> str:
    return f"from {task.source}" if task.source else "not from a file"


def _about_hosts(
    content: "CrontabFile", tasks: list[Definition], done: "services.changes.imported.Imported", file: str
) -> Iterator[Warned]:
    """Yield warnings about tasks of a system file, which ran on this host only and now run on any node."""
    from dcron.crontabfile.host_jobs import known

    written = {*done.added, *done.changed}
    shared = [
        task
        for task in tasks
        if done.renamed.get(task.name, task.name) in written and not (task.every_node or task.require)
    ]
    for task in shared:
        if job := known(file, task.command):
            yield (
                content.lines[task.name],
                f"a job of every host: {job}; leave it to cron, or add --every-node",
            )
    if shared:
        yield (
            None,
            "this is a system file: its lines ran only on this host, and each is now ONE task that runs on"
            " any node; --every-node runs them on every node, --require TAG on the nodes with that tag",
        )


def _about_accounts(done: "services.changes.imported.Imported") -> Iterator[Warned]:
    for user in sorted({user for user in done.accounts.values() if user}):
        if doubt := doubts_about(user):
            yield None, doubt


def _unsendable(crontab: "services.crontab.Crontab", tasks: list[Definition]) -> list[str]:
    """Return the channels of these tasks by which no living node can send."""
    channels = [name for task in tasks for name in task.notify]
    return services.channels.Channels(crontab).unsendable(channels) if channels else []


def _about_mail(content: "CrontabFile", unsendable: list[str], *, no_mail: bool) -> Iterator[Warned]:
    """Yield warnings about mail that cron sent, or would send, and that does not arrive."""
    if unsendable:
        named = humanize.first_few(unsendable, NAMED)
        yield None, f"no running agent can send to {named} yet: {policy.channels.advice(unsendable)}"
    without = [task for task in content.definitions if "MAILTO" not in task.env and not task.notify]
    if without and not no_mail and Path(SENDMAIL).exists():
        yield (
            None,
            f"{len(without):,} of the tasks have no MAILTO above them: cron mailed what they print to their"
            " accounts on this host, and dcron only stores it; MAILTO=ADDRESS in the file mails it",
        )
