"""Names for tasks that have none: readable, made from the command, the same again at the next import.

Lines that would get one name all move on to a longer one, whichever stands first: so moving lines about
renames nothing. The last resort is a hash of what the line says; only lines that say the same are counted.
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
"""What a task says: its command first, then whatever else tells it from another."""


def assign(lines: Sequence[Line], *, taken: Iterable[str], prefix: str) -> list[str]:
    """A name for each line, different from each other and from those taken."""
    reserved = set(taken)
    chosen = _choose({line: _ladder(line, prefix) for line in lines}, reserved)
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
    """What a system file's own name adds to its tasks' names: /etc/cron.d/munin-node gives munin-node."""
    stem = _slug(shellwords.base(source), SHORT)
    return "" if stem in NO_PREFIX else stem


def _choose(ladders: dict[Line, list[str]], used: set[str]) -> dict[Line, str]:
    """The lowest rung of each ladder that nobody else stands on."""
    rung = dict.fromkeys(ladders, 0)
    while True:
        crowd = Counter(ladders[line][step] for line, step in rung.items())
        stuck = [
            line
            for line, step in rung.items()
            if (crowd[ladders[line][step]] > 1 or ladders[line][step] in used)
            and step + 1 < len(ladders[line])
        ]
        if not stuck:
            return {line: ladders[line][step] for line, step in rung.items()}
        for line in stuck:
            rung[line] += 1


def _ladder(line: Line, prefix: str) -> list[str]:
    """Ever longer names; the last ones cannot meet another line's."""
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
    """What an argument adds to a name: hosts and last parts of paths; options and numbers tell little."""
    if UNTELLING.search(word) or (telling and (word.startswith("-") or not LETTER.search(word))):
        return []
    if url := URL.match(word):
        return [_slug(url["host"], ARGUMENT), _slug(shellwords.base(url["path"]), ARGUMENT)]
    return [_slug(SCRIPT.sub("", shellwords.base(word)), ARGUMENT)]


def _slug(text: str, longest: int) -> str:
    """Lower case, dashes for everything a name cannot hold, cut between words where that is possible."""
    slug = NOT_IN_NAMES.sub("-", text[: 4 * longest].lower()).strip("-.")
    if len(slug) > longest:
        slug = slug[: longest + 1].rpartition("-")[0] or slug[:longest]
    return slug.strip("-.")


def _join(prefix: str, words: list[str], longest: int) -> str:
    """What prefix and program both say is said once."""
    if words and words[0].startswith(prefix):
        prefix = ""
    elif words and prefix.startswith(f"{words[0]}-"):
        words = words[1:]
    parts = [prefix, *(word for word in words if word != prefix)]
    name = _slug("-".join(part for part in parts if part), longest)
    return f"task-{name}" if name.isdigit() else name or "task"


def _numbered(name: str, number: int, used: set[str]) -> str:
    """For the second and later of lines that are the same: only their order tells them apart."""
    while (candidate := f"{name[: LONGEST - 7]}-{number}") in used:
        number += 1
    used.add(candidate)
    return candidate
