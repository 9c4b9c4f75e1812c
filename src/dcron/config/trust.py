"""Whether other accounts can change what a file says: the rule of sshd's StrictModes.

A path is safe if it, and every folder and link on the way to it, belongs to root or to the account of this
process, and neither a group nor everyone can write to it. Three special cases:

- A sticky folder above, such as /tmp, is safe for existing files of root or of this account: no other account
  can rename or remove them. It is not safe for files that do not exist yet.
- A folder that is itself checked must not be sticky and open: others could put files into it.
- An account's own group, of its name and without other members, counts as the account, except for root.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

ROOT = 0
_LINKS = 40
"""Links on the way to one file before the kernel gives up, too."""


def problem_with(path: Path) -> str | None:
    """Return how other accounts can change `path`, and the command that prevents it; None if they cannot.

    A path that cannot be read is no problem here: opening it fails with the reason.
    """
    try:
        way = list(_way_to(path.absolute()))
    except OSError:
        return None
    for (at, found), (_, inside) in zip(way, [*way[1:], (path, None)], strict=True):
        if found is None:
            break
        if found.st_uid not in (ROOT, os.geteuid()):
            remedy = _take_over(at, above=at != way[-1][0])
            return f"{_called(at, found)} belongs to {_account(found.st_uid)}; {remedy}"
        if not _may_be_written(found):
            continue
        if found.st_mode & stat.S_ISVTX == 0 or not stat.S_ISDIR(found.st_mode):
            return f"{_called(at, found)} can be written by {_writers(found)}; type: {_close(at, found)}"
        if inside is None:
            return (
                f"{_writers(found)} can make files in {_called(at, found)}; use a folder of its own"
                f" (mkdir -m 700), or type: {_close(at, found)}"
            )
    return None


def refusal(what: str, problem: str) -> str:
    """Return the message of a root agent that refuses a file."""
    return f"an agent that runs as root does not use {what}: {problem}"


def warning(what: str, problem: str) -> str:
    """Return the warning about a file that is used nevertheless."""
    return f"other accounts can change {what}: {problem}"


def can_be_read_by_all(path: Path) -> bool:
    """Return whether every account of this machine can read the file."""
    try:
        here = path.resolve(strict=True)
        closed_above = any(not each.stat().st_mode & stat.S_IXOTH for each in here.parents)
        return bool(here.stat().st_mode & stat.S_IROTH) and not closed_above
    except OSError:
        return False


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result | None]]:
    """Yield each folder and link on the way to `path`, from / on; None stands for a missing one.

    Raises OSError for a path that cannot be read.
    """
    rest = list(reversed(path.parts))
    at, links = Path("/"), 0
    while rest:
        name = rest.pop()
        if name == "..":
            at = at.parent
            continue
        at = at / name
        try:
            found = at.lstat()
        except FileNotFoundError:
            yield at, None
            return
        yield at, found
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _LINKS:
                return
            rest += reversed(at.readlink().parts)
            at = at.parent


def _may_be_written(found: os.stat_result) -> bool:
    """Return whether a group or everyone can write to it; the mode of a link or device means nothing."""
    if stat.S_ISLNK(found.st_mode) or stat.S_ISCHR(found.st_mode):
        return False
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found)


def _is_own_group(found: os.stat_result) -> bool:
    if os.geteuid() == ROOT:
        return False
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    is_its_own = owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name
    return is_its_own and set(group.gr_mem) <= {owner.pw_name}


def _called(at: Path, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return f"the link {at}"
    return f"the folder {at}" if stat.S_ISDIR(found.st_mode) else f"the file {at}"


def _writers(found: os.stat_result) -> str:
    mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if found.st_mode & stat.S_IWOTH:
        return f"every account ({mode})"
    try:
        return f"the group {grp.getgrgid(found.st_gid).gr_name} ({mode})"
    except KeyError:
        return f"the group {found.st_gid} ({mode})"


def _close(at: Path, found: os.stat_result) -> str:
    who = ("g" if found.st_mode & stat.S_IWGRP else "") + ("o" if found.st_mode & stat.S_IWOTH else "")
    return f"chmod {who}-w {shlex.quote(str(at))}"


def _take_over(at: Path, *, above: bool) -> str:
    own = _account(os.geteuid())
    if above:
        return f"use a folder that belongs to {own}, or type: chown -h {own} {shlex.quote(str(at))}"
    return f"if you trust what is in it, type: chown {own} {shlex.quote(str(at))}"


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"{uid}"
