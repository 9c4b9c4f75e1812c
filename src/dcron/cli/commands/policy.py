"""`policy`: check, explain and suggest which tasks the policy of a server accepts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dcron import config, services
from dcron.cli.asking.options import Db, Json, Name, Verb, argument, group, option
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.documents import Document, make
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab
from dcron.config import trust
from dcron.errors import ExitCode, NotFound
from dcron.model import Node, Task
from dcron.nodepolicy.command import Finished, finished
from dcron.nodepolicy.doubts import doubts
from dcron.nodepolicy.grammar import Policy, Problem
from dcron.nodepolicy.judge import Verdict, checks, judge
from dcron.nodepolicy.machine import Machine, OtherMachine, ThisMachine
from dcron.nodepolicy.suggest import Suggested, suggest
from dcron.policy.starting.lanes import lane_of, served_by

COLUMNS = [TableColumn("TASK", least=8), TableColumn("USER"), TableColumn("ENTRY"), TableColumn("VERDICT")]
KEYS = [TableColumn("KEY"), TableColumn("ALLOWS"), TableColumn("WHY", least=12)]
NodeOption = Annotated[
    str | None, option("--node", "NODE", "Name or ID of a living node, whose published rules are used.")
]
command = group("Check and explain which tasks the policy of a server accepts.")


@command.command(cls=Verb)
def check(
    file: Annotated[
        str | None, argument("FILE", "The policy [default: the one of the agent of this machine].")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Check a policy file, and show what it says of every task.

    \b
    dcron policy check
    dcron policy check new-policy.toml

    Accounts and programs are those of this machine; a task without a user is judged as this account. The exit
    code is 1 if an agent could not use the file.
    """
    path = Path(file) if file else _own_path()
    problems, policy = _read(path)
    machine = ThisMachine()
    warnings = [*_of_ownership(path), *(doubts(policy, machine) if policy else ())]
    with opened_crontab(db) as crontab:
        tasks = [row.task for row in crontab.list_tasks()] if policy else []
    verdicts = [(task, judge(policy, _command_of(task, machine), machine)) for task in tasks if policy]
    if as_json:
        shown = [_verdict(task, verdict) for task, verdict in verdicts]
        console.emit(
            make(
                "policy-check",
                path=str(path),
                problems=_told(problems),
                doubts=_told(warnings),
                verdicts=shown,
            )
        )
    else:
        for kind, found in (("error", problems), ("warning", warnings)):
            for problem in found:
                console.complain(f"{kind}: {path}: {problem}")
        print_table(COLUMNS, (_row(task, verdict) for task, verdict in verdicts))
    if problems:
        raise typer.Exit(ExitCode.FAILED)


@command.command(cls=Verb)
def explain(name: Name, node: NodeOption = None, as_json: Json = False, db: Db = None) -> None:
    """Show which entry of a policy allows a task, or what each key of the nearest one says of it.

    \b
    dcron policy explain backup
    dcron policy explain backup --node web-1

    Without --node it is the policy of this machine. A node judges by its file; this is what it has published
    of it, so what depends on files over there is left open.
    """
    with opened_crontab(db) as crontab:
        task = crontab.view(name).task
        found = services.fleet.Fleet(crontab).find(node)[0] if node else None
        rules = services.node_rules.NodePolicies(crontab).of_node(found) if found else None
    machine: Machine
    if found:
        if rules is None:
            raise NotFound(f"{found.name} has not published its policy: it has none, or it is too long")
        path, policy, machine = rules.path, rules.policy, OtherMachine(found.account)
        subject = services.node_rules.command_of(task)
    else:
        here = _own_path()
        path, policy, machine = str(here), _required(here), ThisMachine()
        subject = _command_of(task, machine)
    verdict = judge(policy, subject, machine)
    keys = checks(verdict.entry, subject, machine) if verdict.entry else []
    if as_json:
        shown = [
            make("policy-key", key=each.key, allowed=each.allows, reason=each.reason or None) for each in keys
        ]
        facts = _verdict(task, verdict)
        del facts["user"]
        console.emit(make("policy-explained", **facts, node=found and found.id, path=path, keys=shown))
        return
    console.data(f"{found.name if found else 'this machine'}, {path}: {_said(verdict)}")
    if verdict.entry:
        console.data(f"entry: {verdict.entry}")
        print_table(KEYS, ([each.key, _yes(each.allows), each.reason] for each in keys))


@command.command("suggest", cls=Verb)
def suggest_policy(node: NodeOption = None, db: Db = None) -> None:
    """Print a policy that allows exactly the tasks there are.

    \b
    dcron policy suggest > /etc/dcron/policy.toml

    Read it before you use it: it says what runs, not what should. With --node, only the tasks that this node
    serves. Programs without a path are looked for on this machine.
    """
    machine = ThisMachine()
    with opened_crontab(db) as crontab:
        found = services.fleet.Fleet(crontab).find(node)[0] if node else None
        tasks = [row.task for row in crontab.list_tasks()]
        payloads = services.node_rules.NodePolicies(crontab).tasks_with_payloads()
    own = found.account if found and found.account else config.files.account_name()
    served = [task for task in tasks if found is None or _could_serve(found, task)]
    commands = [
        Suggested(_command_of(task, machine)._replace(payload=task.id in payloads), task.user or own)
        for task in served
    ]
    for line in suggest(commands, machine).rstrip("\n").split("\n"):
        console.data(line)


def _could_serve(node: Node, task: Task) -> bool:
    """Return whether the node would take the task, if its policy accepted every account."""
    return served_by(lane_of(task), replace(node, accepted_accounts=None))


def _own_path() -> Path:
    return config.policy_file.policy_path(None, config.files.load_config()).path


def _read(path: Path) -> tuple[list[Problem], Policy | None]:
    """Return the problems of a file, or its policy. Raises NotFound for a missing one."""
    try:
        return [], config.policy_file.read_any(path).policy
    except FileNotFoundError:
        raise NotFound(f"there is no policy {path}; `dcron policy suggest` shows one") from None
    except config.policy_file.PolicyError as error:
        return error.problems, None


def _required(path: Path) -> Policy:
    """Return the policy of a file. Raises NotFound and PolicyError."""
    problems, policy = _read(path)
    if policy is None:
        raise config.policy_file.PolicyError(path, problems)
    return policy


def _of_ownership(path: Path) -> Iterator[Problem]:
    if problem := trust.problem_with(path):
        yield Problem(f"an agent of root does not use this file: {problem}")


def _command_of(task: Task, machine: ThisMachine) -> Finished:
    return finished(task.name, task.labels, task.source, task.spec(), machine.home(task.user))


def _told(problems: Iterable[Problem]) -> list[Document]:
    return [make("policy-problem", each) for each in problems]


def _verdict(task: Task, verdict: Verdict) -> Document:
    return make(
        "policy-verdict",
        task=task.name,
        user=task.user or config.files.account_name(),
        allowed=verdict.allowed,
        entry=str(verdict.entry) if verdict.entry else None,
        line=verdict.entry.line if verdict.entry else verdict.line,
        reason=verdict.reason or None,
    )


def _row(task: Task, verdict: Verdict) -> list[str]:
    entry = str(verdict.entry) if verdict.entry else ""
    user = task.user or config.files.account_name()
    return [task.name, user, entry, "allowed" if verdict.allowed else AlarmCell(_said(verdict))]


def _said(verdict: Verdict) -> str:
    if verdict.allowed:
        return "allowed"
    return (
        f"refused: {verdict.reason}" if verdict.is_certain else f"depends on that machine: {verdict.reason}"
    )


def _yes(allows: bool) -> str:
    return "yes" if allows else AlarmCell("no")
