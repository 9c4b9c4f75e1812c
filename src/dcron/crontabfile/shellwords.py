"""What a shell line is about: the program it is there for, and that program's arguments.

This reads a command the way a person skims it, in order to name it; it is no shell and need not be right.
"""

import re
from itertools import pairwise

SKIMMED = 500
"""Characters. The program is near the beginning."""
DEPTH = 3
TOKEN = re.compile(
    r"""(?P<break>&&|\|\||[;|&\n()])
    | (?P<redirect>\d*+[<>]++&?[ \t]*+)
    | (?P<word>(?:[^\s"'\\;|&<>()`$]|\\.|"(?:[^"\\]|\\.)*"|'[^']*+'|\$\([^()]*+\)|`[^`]*+`|[$"'`\\])+)""",
    re.DOTALL | re.VERBOSE,
)
KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
CLOSING = {"fi", "done", "esac", "}", "for", "case"}
CHECKS = {"test", "[", "[[", "which", "type", "hash"}
PREPARATIONS = {
    *(
        "cd",
        "pushd",
        "mkdir",
        "sleep",
        "export",
        "set",
        "source",
        ".",
        "umask",
        "ulimit",
        "true",
        "false",
        ":",
    ),
    *("exit", "unset", "trap", "wait"),
}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*+=")
SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh"}
SHELL_COMMAND = re.compile(r"-[a-z]*c")
INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|php|node|lua|java|Rscript)[\d.]*")
INLINE_CODE = {"-c", "-e", "-E", "-r", "--eval"}
INTERPRETER_VALUES = {"-d", "-W", "-X", "-I", "-cp", "-classpath"}
WRAPPERS: dict[str, tuple[set[str], int]] = {
    # program: (its options that take a value, how many words of its own follow them)
    "nice": ({"-n", "--adjustment"}, 0),
    "ionice": ({"-c", "-n", "-p", "--class", "--classdata"}, 0),
    "chrt": (set(), 1),
    "taskset": ({"-c"}, 1),
    "flock": ({"-w", "-E", "--wait", "--timeout"}, 1),
    "setlock": (set(), 1),
    "timeout": ({"-s", "-k", "--signal", "--kill-after"}, 1),
    "sudo": ({"-u", "-g", "-h", "-p", "-C", "-D"}, 0),
    "doas": ({"-u", "-C"}, 0),
    "su": ({"-s", "-g", "--shell"}, 1),
    "runuser": ({"-u", "-g", "-s"}, 0),
    "env": ({"-u", "-C"}, 0),
    "systemd-cat": ({"-t", "-p"}, 0),
    "stdbuf": ({"-i", "-o", "-e"}, 0),
    **{name: (set(), 0) for name in ("exec", "nohup", "setsid", "chronic", "cronic", "eatmydata", "run-one")},
}
Words = list[str]


def program(command: str, depth: int = DEPTH) -> Words:
    """Return the program that a shell line is for, and its arguments; empty if there is none."""
    prepared: Words = []
    for words in _simple_commands(command[:SKIMMED]):
        found, main = _peel(words, depth)
        if found and main:
            return found
        prepared = found or prepared
    return prepared


def _simple_commands(line: str) -> list[Words]:
    commands: list[Words] = [[]]
    redirected = False
    for token in TOKEN.finditer(line):
        if token["break"]:
            commands.append([])
        elif token["word"] and not redirected:
            commands[-1].append(_unquoted(token["word"]))
        redirected = bool(token["redirect"])
    return [words for words in commands if words]


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return re.sub(r"[\"'\\]", "", word)


def _peel(words: Words, depth: int) -> tuple[Words, bool]:
    """Return the words without keywords, assignments and wrappers, and whether they do the work."""
    while words:
        name = base(words[0])
        if name in KEYWORDS or ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name == "command" and len(words) > 1:
            if words[1].startswith("-"):
                return [], False
            words = words[1:]
        elif (inner := _inner(name, words)) is not None and depth:
            return program(inner, depth - 1), True
        elif name in WRAPPERS:
            words = _after_options(words[1:], *WRAPPERS[name])
        elif name in CLOSING or name in CHECKS:
            return [], False
        else:
            return _interpreted(name, words)
    return [], False


def base(word: str) -> str:
    """Return the last part of a path."""
    return word.rstrip("/").rpartition("/")[2]


def _inner(name: str, words: Words) -> str | None:
    """Return the line that a wrapper gives to a shell of its own."""
    if name not in SHELLS | {"su", "runuser", "flock"}:
        return None
    for option, value in pairwise(words):
        if SHELL_COMMAND.fullmatch(option):
            return value
        if name in SHELLS and not option.startswith("-") and option != words[0]:
            return None
    return None


def _after_options(words: Words, valued: set[str], own: int) -> Words:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in valued else 1
    return words[at + own :]


def _interpreted(name: str, words: Words) -> tuple[Words, bool]:
    """Return the script instead of its interpreter. A program typed in the line has no name."""
    if name not in SHELLS and not INTERPRETER.fullmatch(name):
        return words, name not in PREPARATIONS
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        if rest[0] in INLINE_CODE:
            return [name], False
        rest = rest[2 if rest[0] in INTERPRETER_VALUES else 1 :]
    return rest or [name], True
