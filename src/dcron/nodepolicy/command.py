"""A finished command as the judge sees it: what a run's copy of its task says, and what is read from it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_SHELL = "/bin/sh"


class Finished(NamedTuple):
    """What would be executed, and for which task."""

    task: str
    labels: Mapping[str, str]
    source: str | None
    user: str | None
    """None is the account of the agent."""
    line: str
    """The shell line, or the arguments as a shell would read them."""
    program: str | None
    """The first argument; None for a shell line."""
    shell: str
    path: str
    """Where a program without / is searched."""
    env: tuple[str, ...]
    """The variables that the task sets."""
    cwd: str | None
    """None is the account's home."""
    stdin: bool = False
    payload: bool = False


def argv_of(spec: Mapping[str, Any]) -> Sequence[str]:
    """Return the arguments by which a node starts the command."""
    return spec.get("argv") or [shell_of(spec), "-c", spec.get("command", "")]


def shell_of(spec: Mapping[str, Any]) -> str:
    """Return the shell of the task."""
    shell: str = spec.get("shell") or DEFAULT_SHELL
    return shell


def finished(
    task: str,
    labels: Mapping[str, str],
    source: str | None,
    spec: Mapping[str, Any],
    home: str | None = None,
    *,
    payload: bool = False,
) -> Finished:
    """Return the command of a spec. `home` is that of its account, None where it is not known here."""
    env: Mapping[str, str] = spec.get("env") or {}
    argv: Sequence[str] | None = spec.get("argv") or None
    cwd: str | None = spec.get("cwd") or env.get("HOME") or None
    return Finished(
        task=task,
        labels=labels,
        source=source,
        user=spec.get("user"),
        line=shlex.join(argv) if argv else spec.get("command", ""),
        program=argv[0] if argv else None,
        shell=shell_of(spec),
        path=env.get("PATH", DEFAULT_PATH),
        env=tuple(env),
        cwd=None if cwd == home else cwd,
        stdin=spec.get("stdin") is not None,
        payload=payload,
    )
