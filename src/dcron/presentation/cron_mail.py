"""Write the mail with the output of a run, in the form of Debian's cron (cron 3.0pl1, do_command.c)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dcron.values.safe_text import safe

LONGEST_BODY = 100_000
"""Bytes of output in one mail."""
SENDER = "root (Cron Daemon)"
"""The sender of cron's mails, unless MAILFROM names one."""
_OWN = ("SHELL", "HOME", "PATH", "LOGNAME")
"""The variables that cron lists after those of the file, in its order."""


@dataclass(frozen=True)
class CronMail:
    """A mail as cron writes it, without the address of its receiver."""

    subject: str
    headers: tuple[tuple[str, str], ...]
    text: str


def compose(
    command: str,
    variables: Mapping[str, str],
    run: Mapping[str, Any],
    output: bytes,
    total_bytes: int,
    run_id: int,
    sender: str | None = None,
) -> CronMail:
    """Return the mail of one run.

    `variables` are those of the task. `run` has what its node has recorded: `host`, `user`, and `env`, the
    variables that every command gets. `sender` is used where no MAILFROM is set.
    """
    subject = _inert(f"Cron <{run.get('user', '')}@{run.get('host', '')}> {command}")
    found = run.get("env")
    own = found if isinstance(found, Mapping) else {}
    env = {**variables, **{name: own[name] for name in _OWN if name in own and name not in variables}}
    headers = [("From", _inert(variables.get("MAILFROM") or sender or SENDER))]
    headers += [("X-Cron-Env", f"<{_inert(f'{name}={value}')}>") for name, value in env.items()]
    return CronMail(subject, tuple(headers), _body(output, total_bytes, run_id))


def _body(output: bytes, total_bytes: int, run_id: int) -> str:
    text = output[:LONGEST_BODY].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    body = "\n".join(_inert(line) for line in text.split("\n"))
    if total_bytes > LONGEST_BODY:
        body = body.rstrip("\n") + (
            f"\n\n[dcron: these are the first {LONGEST_BODY:,} of {total_bytes:,} bytes;"
            f" the whole output: dcron logs {run_id}]\n"
        )
    return body


def _inert(line: str) -> str:
    """Return a line without control characters, except tabs."""
    return "\t".join(safe(part) for part in line.replace("\n", " ").split("\t"))
