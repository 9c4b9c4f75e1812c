"""The file that says which tasks this machine's agent accepts: where it is, and reading it."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dcron.config import trust
from dcron.config.files import Config
from dcron.errors import Refused, UsageError
from dcron.nodepolicy.grammar import LONGEST, Policy, Problem, read

POLICY = Path("/etc/dcron/policy.toml")
Stamp = tuple[int, int, int, int, int]
"""What changes when a file is written or replaced: device, number, both times, and size."""


class PolicyError(UsageError):
    """A policy file that cannot be used. It names every problem."""

    code = "policy"

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(f"the policy {path} cannot be used: {'; '.join(map(str, problems))}")


@dataclass(frozen=True)
class PolicyPath:
    """Where an agent finds its policy."""

    path: Path
    is_named: bool
    """Whether an option, the environment or the config names it. Only another one may be missing."""


@dataclass(frozen=True)
class PolicyFile:
    """The policy that a file says."""

    path: Path
    policy: Policy
    digest: str
    stamp: Stamp


def policy_path(option: str | None, config: Config) -> PolicyPath:
    """Return the file that --policy, $DCRON_POLICY or `policy` of [agent] names, else the machine's."""
    named = option or os.environ.get("DCRON_POLICY") or config.agent.get("policy")
    return PolicyPath(Path(named).absolute(), True) if named else PolicyPath(POLICY, False)


def read_policy(path: Path) -> PolicyFile:
    """Read the file. Raises FileNotFoundError for a missing one, PolicyError, and Refused.

    Refused is raised as root for a file that other accounts can change: it would choose what runs as root.
    """
    if (problem := trust.problem_with(path)) and os.geteuid() == trust.ROOT:
        raise Refused(trust.refusal(f"the policy {path}", problem))
    return read_any(path)


def read_any(path: Path) -> PolicyFile:
    """Read the file; do not ask who can change it. Raises FileNotFoundError and PolicyError."""
    try:
        content, stamp = _content(path)
        text = content.decode()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PolicyError(path, [Problem(f"it cannot be read: {error.strerror}")]) from None
    except ValueError:
        raise PolicyError(path, [Problem("it is not text in UTF-8")]) from None
    found = read(text)
    if isinstance(found, list):
        raise PolicyError(path, found)
    return PolicyFile(path, found, hashlib.sha256(content).hexdigest()[:16], stamp)


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when the file is written or replaced; None for a missing one."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _content(path: Path) -> tuple[bytes, Stamp]:
    """Read a plain file: anything else, such as a pipe, would block. Its stamp is from before it is read."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is no plain file")
        return file.read(4 * LONGEST), _stamp(about)


def _stamp(about: os.stat_result) -> Stamp:
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size
