"""Make names for tasks that have none: readable, from the command, and the same at the next import.

If several lines would get the same name, all of them get a longer one. So a name does not depend on the order
of lines. The last resort is a hash of the line. Only identical lines get numbers.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from dcron.crontabfile import shellwords

LONGEST = 100
SHORT = 48
LONG = 80
SHORT_ARGUMENTS = 2
LONG_ARGUMENTS = 8
ARGUMENT = 32
LETTER = re.compile(r"[A-Za-z]")
NOT_IN_NAMES = re.compile(r"[^a-z0-9._]+")
SCRIPT = re.compile(r"\.(?:sh|bash|py|pl|rb|php|js|jar|exe|phar)$", re.IGNORECASE)
URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?P<host>[^/:?#]*)[^/?#]*(?P<path>[^?#]*)", re.IGNORECASE)
UNTELLING = re.compile(r"\$\(|`|^\$\w+$|^/dev/")
NO_PREFIX = {"", "crontab", "crontabs", "cron", "stdin", "root"}
Line = tuple[str | None, ...]
"""The command of a task, then all else in which two tasks can differ."""


def assign(lines: Sequence[Line], *, taken: Iterable[str], prefix: str) -> list[str]:
    """Return a name for each line. No two are the same, and none is taken."""
    reserved = set(taken)
    chosen = _choose({line: _candidates(line, prefix) for line in lines}, reserved)
    used = reserved.union(chosen.values())
    seen: Counter[Line] = Counter()
    names = []
    for line in lines:
        seen[line] += 1
        free = seen[line] == 1 and chosen[line] not in reserved
        names.append(chosen[line] if free else _numbered(chosen[line], seen[line], used))
    return names


def default_name(command: str) -> str:
    """Return a readable name made from the command."""
    return assign([(command,)], taken=(), prefix="")[0]


def prefix_for(source: str) -> str:
    """Return the prefix of names of a system file's tasks: munin-node for /etc/cron.d/munin-node."""
    stem = _slug(shellwords.base(source), SHORT)
    return "" if stem in NO_PREFIX else stem


def _choose(candidates: dict[Line, list[str]], used: set[str]) -> dict[Line, str]:
    """Return the first candidate of each line that no other line has."""
    step_of = dict.fromkeys(candidates, 0)
    while True:
        crowd = Counter(candidates[line][step] for line, step in step_of.items())
        stuck = [
            line
            for line, step in step_of.items()
            if (crowd[candidates[line][step]] > 1 or candidates[line][step] in used)
            and step + 1 < len(candidates[line])
        ]
        if not stuck:
            return {line: candidates[line][step] for line, step in step_of.items()}
        for line in stuck:
            step_of[line] += 1


def _candidates(line: Line, prefix: str) -> list[str]:
    """Return candidates, each longer than the one before. No other line can have the last ones."""
    words = shellwords.program(line[0] or "")
    short = _join(prefix, _words(words, SHORT_ARGUMENTS, telling=True), SHORT)
    long = _join(prefix, _words(words, LONG_ARGUMENTS, telling=False), LONG)
    code = hashlib.sha256(json.dumps(line).encode()).hexdigest()
    return [*dict.fromkeys((short, long)), f"{short}-{code[:6]}", f"{short}-{code[:32]}"]


def _words(words: list[str], most: int, *, telling: bool) -> list[str]:
    if not words:
        return []
    found = [_slug(SCRIPT.sub("", shellwords.base(words[0])), SHORT)]
    for word in words[1:]:
        found += [slug for slug in _argument(word, telling=telling) if slug]
        if len(found) > most:
            break
    return [word for word in found[: most + 1] if word]


def _argument(word: str, *, telling: bool) -> list[str]:
    """Return what an argument adds to a name: hosts and last parts of paths, but no options or numbers."""
    if UNTELLING.search(word) or (telling and (word.startswith("-") or not LETTER.search(word))):
        return []
    if url := URL.match(word):
        return [_slug(url["host"], ARGUMENT), _slug(shellwords.base(url["path"]), ARGUMENT)]
    return [_slug(SCRIPT.sub("", shellwords.base(word)), ARGUMENT)]


def _slug(text: str, longest: int) -> str:
    """Return the text in lower case, with dashes for other characters, cut between words if possible."""
    slug = NOT_IN_NAMES.sub("-", text[: 4 * longest].lower()).strip("-.")
    if len(slug) > longest:
        slug = slug[: longest + 1].rpartition("-")[0] or slug[:longest]
    return slug.strip("-.")


def _join(prefix: str, words: list[str], longest: int) -> str:
    """Return prefix and words as one name. What both contain appears once."""
    if words and words[0].startswith(prefix):
        prefix = ""
    elif words and prefix.startswith(f"{words[0]}-"):
        words = words[1:]
    parts = [prefix, *(word for word in words if word != prefix)]
    name = _slug("-".join(part for part in parts if part), longest)
    return f"task-{name}" if name.isdigit() else name or "task"


def _numbered(name: str, number: int, used: set[str]) -> str:
    """Return a numbered name, for the second and later of identical lines."""
    while (candidate := f"{name[: LONGEST - 7]}-{number}") in used:
        number += 1
    used.add(candidate)
    return candidate
