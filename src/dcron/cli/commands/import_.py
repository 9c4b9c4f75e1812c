"""`import`: add the tasks of a crontab file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import new_task_zone, opened_crontab
from dcron.cli.options import Db, Json
from dcron.errors import CrontabFileError, Refused, UsageError
from dcron.text_input import read_text

if TYPE_CHECKING:
    from dcron.cli.import_source import Origin
    from dcron.crontabfile import CrontabFile
    from dcron.model import Definition, Task
    from dcron.services.crontab import Crontab
    from dcron.services.imports import Imported


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
        str, typer.Argument(metavar="FILE|-", help="Crontab file, or - for stdin.", show_default=False)
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
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would be done.")] = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="Apply changes without asking.")] = False,
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
    from dcron.cli.import_source import origin_of, require_system

    if system and user is not None:
        raise UsageError("--user: each line of a system file names its account; leave out --user or --system")
    origin = origin_of(file, user)

    def attempt(crontab: "Crontab", agreed: "Imported | None") -> "Imported":
        is_root = os.geteuid() == 0
        return crontab.import_tasks(
            tasks, origin.source, prefix=prefix, adopt=adopt, by_root=is_root, agreed=agreed, dry_run=dry_run
        )

    with opened_crontab(db, creates=True) as crontab:
        zone = new_task_zone(crontab).name
        content = _read(file, zone, system=system, mail_output=not no_mail)
        if not content.system:
            require_system(file)
        tasks = [
            _placed(task, origin.user, every_node=every_node, tags=require or [])
            for task in content.definitions
        ]
        with _located(content, _name_of(file)):
            done = attempt(crontab, None) if force or dry_run else _agreed(crontab, attempt, as_json=as_json)
        if dry_run and not as_json:
            _show_changes(done, crontab)
        unsendable = _unsendable(crontab, tasks)
    warnings = [*_warnings(content, tasks, done, file), *_about_mail(content, unsendable, no_mail=no_mail)]
    if as_json:
        console.emit(_shape(done, origin, warnings))
    else:
        _show(done, dry_run=dry_run)
    for line, message in warnings:
        console.note(f"{_name_of(file)}:{'' if line is None else f'{line}:'} warning: {message}")


def _read(file: str, timezone: str, *, system: bool, mail_output: bool) -> "CrontabFile":
    from dcron.crontabfile import MAX_BYTES, read
    from dcron.sources.formats import format_of

    text = read_text(file, "import", MAX_BYTES)
    if (form := format_of(Path(file), text)) != "text":
        name = _name_of(file)
        raise UsageError(f"{name} is {form.upper()}: `dcron apply -F {file}` reads it, import reads crontabs")
    return read(text, source=_name_of(file), timezone=timezone, system=system, mail_output=mail_output)


def _name_of(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _placed(task: "Definition", user: str | None, *, every_node: bool, tags: list[str]) -> "Definition":
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
    from dcron.services.imports import InvalidTasks

    try:
        yield
    except Refused:
        for notice in content.warnings:
            console.note(f"{source}:{notice.line}: warning: {notice.message}")
        raise
    except InvalidTasks as bad:
        places = sorted((content.lines.get(name, 1), problem) for name, problem in bad.problems.items())
        text = "\n".join(f"{source}:{line}:1: {problem}" for line, problem in places)
        raise CrontabFileError(text) from None


def _agreed(
    crontab: "Crontab", attempt: Callable[["Crontab", "Imported | None"], "Imported"], *, as_json: bool
) -> "Imported":
    """Import; if tasks would change, show the changes and ask first. Raises Refused if the answer is no."""
    from dcron.services.imports import Imported, NotAgreed

    try:
        return attempt(crontab, Imported((), (), ()))
    except NotAgreed as error:
        planned = error.imported
    crontab.database.close()  # no connection idles while the user decides; the next statement opens one
    if as_json:
        raise Refused(f"{_counts(planned)}: see the changes with --dry-run, then repeat it with --force")
    _show_changes(planned, crontab)
    console.require_consent(f"{_counts(planned)}: apply", force=False)
    return attempt(crontab, planned)


def _show_changes(done: "Imported", crontab: "Crontab") -> None:
    from dcron.cli.task_differences import show
    from dcron.services.text_edits import Changes, TaskChange

    if done.changes:
        show(Changes([TaskChange(before, after) for before, after in done.changes]), crontab.now())


def _counts(done: "Imported", would: str = "") -> str:
    return (
        f"{len(done.added):,} {would}added, {len(done.changed):,} {would}changed,"
        f" {len(done.unchanged):,} unchanged"
    )


def _show(done: "Imported", *, dry_run: bool) -> None:
    for kind, names in (("added", done.added), ("changed", done.changed)):
        width = min(WIDEST, max(map(len, names[:SHOWN]), default=0))
        for name in names[:SHOWN]:
            account = done.accounts[name]
            console.data(f"{kind:<9}  {name:<{width}}  as {account or 'the account of its agent'}")
        if len(names) > SHOWN:
            console.data(f"{kind:<9}  … and {len(names) - SHOWN:,} more")
    console.data(_counts(done, "would be " if dry_run else ""))


def _shape(done: "Imported", origin: "Origin", warnings: list[Warned]) -> dict[str, Any]:
    return {
        "added": list(done.added),
        "changed": list(done.changed),
        "unchanged": list(done.unchanged),
        "accounts": dict(done.accounts),
        "renamed": dict(done.renamed),
        "source": origin.source,
        "warnings": [{"line": line, "message": message} for line, message in warnings],
    }


def _warnings(
    content: "CrontabFile", tasks: list["Definition"], done: "Imported", file: str
) -> Iterator[Warned]:
    """Yield warnings about an import that was done; those about lines of the file come first."""
    yield from ((notice.line, notice.message) for notice in content.warnings)
    for name in done.expired:
        in_file = next((old for old, new in done.renamed.items() if new == name), name)
        line = content.lines.get(in_file)
        yield line, f"{name}: its last time has passed, so it will not run"
    yield from _about_names(content, done)
    if content.system:
        yield from _about_hosts(content, tasks, done, file)
    yield from _about_accounts(done)


def _about_names(content: "CrontabFile", done: "Imported") -> Iterator[Warned]:
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
        from dcron.presentation.humanize import first_few

        named = first_few([other.name for other in same], NAMED)
        yield (
            None,
            f"{len(same):,} already there as equal tasks ({named}; {_origin(same[0])}): each remains ONE task"
            " for all hosts; --every-node runs it on each host, --prefix adds a separate task",
        )


def _origin(task: "Task") -> str:
    return f"from {task.source}" if task.source else "not from a file"


def _about_hosts(
    content: "CrontabFile", tasks: list["Definition"], done: "Imported", file: str
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


def _about_accounts(done: "Imported") -> Iterator[Warned]:
    from dcron.cli.import_source import doubts_about

    for user in sorted({user for user in done.accounts.values() if user}):
        if doubt := doubts_about(user):
            yield None, doubt


def _unsendable(crontab: "Crontab", tasks: list["Definition"]) -> list[str]:
    """Return the channels of these tasks by which no living node can send."""
    from dcron.services.channels import Channels

    channels = [name for task in tasks for name in task.notify]
    return Channels(crontab).unsendable(channels) if channels else []


def _about_mail(content: "CrontabFile", unsendable: list[str], *, no_mail: bool) -> Iterator[Warned]:
    """Yield warnings about mail that cron sent, or would send, and that does not arrive."""
    from dcron.policy.channels import advice
    from dcron.presentation.humanize import first_few

    if unsendable:
        named = first_few(unsendable, NAMED)
        yield None, f"no running agent can send to {named} yet: {advice(unsendable)}"
    without = [task for task in content.definitions if "MAILTO" not in task.env and not task.notify]
    if without and not no_mail and Path(SENDMAIL).exists():
        yield (
            None,
            f"{len(without):,} of the tasks have no MAILTO above them: cron mailed what they print to their"
            " accounts on this host, and dcron only stores it; MAILTO=ADDRESS in the file mails it",
        )
