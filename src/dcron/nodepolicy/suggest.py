"""Write a policy that allows exactly the commands there are. It is no judgement of them."""

import json
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from dcron.nodepolicy.command import Finished
from dcron.nodepolicy.grammar import is_plain
from dcron.nodepolicy.judge import SHELLS
from dcron.nodepolicy.machine import ThisMachine

_HEAD = """\
# What runs here today: nobody has judged whether it should. Read each entry before you use this file.
"""


class Suggested(NamedTuple):
    """A command, and the name of the account that it runs as."""

    command: Finished
    account: str


def suggest(commands: Iterable[Suggested], machine: ThisMachine) -> str:
    """Return the text of a policy: an entry for each account, team and unusual shell."""
    groups: dict[Hashable, list[Suggested]] = {}
    for each in commands:
        shell = None if each.command.shell in SHELLS else each.command.shell
        team = each.command.labels.get("team")
        groups.setdefault((each.account, team, shell), []).append(each)
    accounts = list(dict.fromkeys(each.account for group in groups.values() for each in group))
    parts = [_HEAD, _line("accounts", accounts or ["*"])]
    return "\n".join([*parts, *(_entry(group, machine) for group in groups.values())])


def _entry(group: Sequence[Suggested], machine: ThisMachine) -> str:
    first = group[0]
    team = first.command.labels.get("team")
    programs: list[str] = [] if first.command.shell in SHELLS else [first.command.shell]
    lines: list[str] = []
    for command, _ in group:
        found = machine.programs(command.program, command.path) if command.program else []
        if found and all(map(is_plain, found)):
            programs += found
        else:
            lines.append(command.line)
    keys = {
        "user": [first.account],
        "program": programs,
        "line": lines,
        "env": [name for command, _ in group for name in command.env],
        "cwd": [command.cwd for command, _ in group if command.cwd is not None],
    }
    head = ["[[allow]]", f"name = {_text(f'{team} as {first.account}' if team else first.account)}\n"]
    text = "\n".join(head)
    if team:
        text += _line("label", [f"team={team}"])
    else:
        text += _line("task", [command.task for command, _ in group])
    text += "".join(_line(key, sorted(set(values))) for key, values in keys.items() if values)
    for switch in ("stdin", "payload"):
        if any(getattr(command, switch) for command, _ in group):
            text += f"{switch} = true\n"
    return text


def _line(key: str, values: Sequence[str]) -> str:
    """Return `key = ["a", "b"]`, over several lines if there are several long ones."""
    texts = [_text(value) for value in values]
    one = f"{key} = [{', '.join(texts)}]"
    if len(one) <= 100:
        return f"{one}\n"
    return f"{key} = [\n" + "".join(f"    {text},\n" for text in texts) + "]\n"


def _text(value: str) -> str:
    """Return a basic string of TOML, which is one of JSON but for a letter that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
