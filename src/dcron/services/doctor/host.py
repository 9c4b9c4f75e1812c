"""This machine: the systemd unit of its agent, and its spool."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dcron.presentation.doctor import Finding

UNIT = "dcron-agent.service"
_PROPERTIES = ("LoadState", "Type", "KillMode", "Restart", "Delegate", "WatchdogUSec")
_DEADLINE = 5.0
_WANTED = {
    "KillMode": ("mixed", "systemd kills the running commands at once when it stops the agent"),
    "Restart": ("always", "after a crash, this server runs nothing until a person starts the agent"),
    "Type": ("notify", "systemd does not know when the agent is ready, and its watchdog cannot work"),
    "Delegate": (
        "yes",
        "commands get no cgroups, so --limit memory holds for each process, not for the command",
    ),
}
"""The properties of the unit in docs/deploy, and what each other value causes."""


_FORGETFUL = {
    "tmpfs": "which a restart of the machine empties",
    "ramfs": "which a restart of the machine empties",
    "overlay": "which goes with its container",
    "aufs": "which goes with its container",
}
"""File systems that do not outlive the machine or the container."""


def examine_spool(spool: Path, kind: str, kept: Sequence[str]) -> Iterator[Finding]:
    """Yield that the spool, on a file system of this kind, does not survive what ends kept commands."""
    if kept and kind in _FORGETFUL:
        yield Finding("spool-not-kept", [str(spool)], kind=kind, forgets=_FORGETFUL[kind], tasks=kept)


def unit_properties() -> Mapping[str, str] | None:
    """Return the properties of the agent's unit; None without systemd or without the unit."""
    if not Path("/run/systemd/system").is_dir():
        return None
    words = ["systemctl", "show", UNIT, f"--property={','.join(_PROPERTIES)}"]
    try:
        shown = subprocess.run(words, capture_output=True, text=True, timeout=_DEADLINE, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return found if found.get("LoadState") == "loaded" else None


def examine(unit: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with the unit."""
    for name, (wanted, effect) in _WANTED.items():
        if (found := unit.get(name, wanted)) != wanted:
            right = "memory pids" if name == "Delegate" else wanted
            yield Finding("unit", [UNIT], found=f"{name}={found}", effect=effect, wanted=f"{name}={right}")
    if unit.get("Type") == "notify" and unit.get("WatchdogUSec", "") in ("0", "infinity"):
        yield Finding("unit", [UNIT], form="watchdog")
