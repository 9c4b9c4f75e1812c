"""Understand the words of other tools, and the forms of the release before.

An alias has exactly one meaning. An answer names the verbs that may be meant; nothing is done.
"""

from collections.abc import Iterable, Sequence

from dcron.values import similar

_SIMILAR = 0.75
"""How similar two words have to be, from 0 to 1: `prevew` is `preview`, but `remove` is not `resume`."""
_OPPOSITE = ("un", "de", "re")
"""What turns a verb into its opposite: `unhld` is not `hold`."""
ALIASES = {
    **dict.fromkeys(("ls", "tasks"), "list"),
    **dict.fromkeys(("show", "describe"), "view"),
    **dict.fromkeys(("delete", "del", "remove"), "rm"),
    **dict.fromkeys(("unpause", "continue"), "resume"),
    **{"suspend": "pause", "unfreeze": "thaw", "trigger": "run", "in": "at"},
    **{"cordon": "drain", "uncordon": "undrain", "agents": "nodes"},
    **{"calendars": "calendar list", "queues": "queue list", "channels": "channel list"},
}
"""Words of other tools, and the verbs with the same meaning."""
_DONE_BY: dict[str, str] = {
    "create new": "`dcron add SCHEDULE COMMAND` adds a task, `dcron at TIME COMMAND` a single run",
    "start": "`dcron run {name}` runs a task, `dcron resume {name}` ends its pause, `dcron agent` is one",
    "stop": "`dcron cancel RUN` stops a run, `dcron pause {name}` a task, `dcron drain NODE` drains a node",
    "status": "`dcron list` shows the tasks, `dcron nodes` the agents, `dcron view {name}` one task",
    "enable": "`dcron resume {name}` ends the pause of {task}",
    "disable": "`dcron pause {name}` pauses {task} until it is resumed",
    "get": "`dcron list` lists tasks, `dcron view {name}` shows one, `dcron runs` runs, `dcron nodes` agents,"
    " `dcron config list` settings",
    "kill": "`dcron cancel RUN` stops a run with all its children; `dcron runs {name}` shows the numbers",
    "tail follow attach watch top": "`dcron logs -f {name}` follows the output; `dcron` alone is the screen",
    "log stat blame audit": "`dcron logs {name}` prints output, `dcron history {name}` changes,"
    " `dcron stats {name}` figures",
    "ps job jobs": "`dcron runs --state running,waiting` lists what runs and what waits",
    "update modify change mv rename": "`dcron set {name} --schedule …` changes {task},"
    " `dcron set {name} --name NEW` renames it",
    "cp copy": "`dcron export > FILE`, change the name, `dcron import FILE`",
    "restart reload": "agents follow the crontab, so nothing is to be reloaded;"
    " `dcron retry RUN` or `dcron run {name}` runs a task again",
    "rerun replay": "`dcron retry RUN` runs the task as it is now, `dcron run {name} --like RUN` as it was",
    "redo revert rollback": "`dcron undo {name}` takes the last change back; `dcron undo --batch ID` of an"
    " undo is its redo, and `dcron history {name}` shows the IDs",
    "mute silence snooze unack": "`dcron ack {name} --for 4h`; an acknowledgement ends by itself, or with"
    " the alert",
    "next when schedule test plan": "`dcron preview {name}` or `dcron preview '*/5 * * * *'` shows the next"
    " times",
    "check validate": "`dcron lint FILE` checks a file, `dcron doctor` the cluster",
    "init migrate upgrade": "`dcron db init` makes the tables, `dcron db upgrade` changes older ones",
    "clean purge gc vacuum": "`dcron prune --dry-run` shows which history would be deleted",
    "save backup load": "`dcron dump FILE` writes the crontab to a file, `dcron restore FILE` reads it",
    "worker daemon server up scheduler": "`dcron agent` runs what is due",
    "login use ctx context contexts": "`dcron -c NAME VERB` uses a context; contexts are in the config file,"
    " and `dcron info` names the one in use",
    "event events send fire": "`dcron emit EVENT` sends an event",
    "quit exit": "only the screen has `q`; here every command ends by itself",
}
ANSWERS = {word: answer for words, answer in _DONE_BY.items() for word in words.split()}
"""Words of other tools without an exact equivalent, and the verbs to use."""
CRONTAB = {
    "-l": "`dcron list` lists the tasks, `dcron export` prints them as a crontab",
    "-e": "`dcron edit` opens the crontab in your editor",
    "-r": "`dcron rm NAME` removes a task; nothing removes all of them",
    "-u": "the account is an option of a task: `dcron add --user NAME …`; the crontab is one for all",
}
"""Options of crontab(1), and the verbs to use."""
SUB_ALIASES = {
    "queue": {"add": "set"},
    "calendar": {"set": "add", "create": "add"},
    "config": {"view": "get"},
}
"""Words of other tools behind a verb that has verbs of its own."""
SUB_ANSWERS = {
    "freeze": {
        **dict.fromkeys(("end", "stop", "rm", "thaw"), "`dcron thaw` ends a freeze"),
        "": "`dcron freeze --until 1h` freezes the crontab for an hour, `dcron pause NAME` stops one task",
    },
    "db": {"migrate": "`dcron db upgrade`", "create": "`dcron db init`"},
}
"""The same, with an answer; "" is any other word."""


def without_alias(words: list[str]) -> list[str]:
    """Return the words with the verb for an alias at their beginning."""
    return [*ALIASES[words[0]].split(), *words[1:]] if words[0] in ALIASES else words


def answer(typed: str, following: Sequence[str]) -> str | None:
    """Return which verbs serve a word of another tool, with the name that was typed behind it."""
    if typed in ANSWERS:
        has_name = bool(following) and not following[0].startswith("-")
        name = following[0] if has_name else "NAME"
        return ANSWERS[typed].replace("{name}", name).replace("{task}", name if has_name else "a task")
    if "://" in typed:  # it may have a password: it is not repeated
        return "`dcron --db URL VERB` uses a database"
    if "/" in typed or typed == "-":
        return "`dcron import FILE` imports a crontab file, `dcron import -` stdin"
    return None


def of_crontab(words: Sequence[str]) -> str | None:
    """Return the answer to an option of crontab(1) at the beginning of a command line."""
    if words and words[0] in CRONTAB:
        return f"dcron has no option {words[0]}, as crontab(1) has: {CRONTAB[words[0]]}"
    return None


def of_group(group: str, typed: str, verbs: Iterable[str]) -> str | None:
    """Return the verb of a group that has the meaning of a word of another tool."""
    word = SUB_ALIASES.get(group, {}).get(typed) or ALIASES.get(typed, typed)
    return word if word in verbs else None


def current_form(words: list[str]) -> tuple[list[str], str | None]:
    """Return a command line of the release before in today's form, and the line to print about it.

    These forms go with 0.3.
    """
    new: list[str] = words
    match words:
        case ["quiet", *rest]:
            new = ["forecast", "--quiet", *rest]
        case ["freezes", *rest]:
            new = ["freeze", "list", *rest]
        case ["runs", *rest] if run := _value("--id", rest):
            new = ["view", *run, *_without("--id", rest)]
    if new is words:
        return words, None
    old, now = (" ".join(each) for each in (words, new))
    return new, f"`{old}` is now `dcron {now}`; the old form goes with 0.3"


def _value(option: str, words: list[str]) -> list[str]:
    """Return the value of an option, as a list of one word; none if it is not given."""
    for at, word in enumerate(words):
        if word == option:
            return words[at + 1 : at + 2]
        if word.startswith(f"{option}="):
            return [word.removeprefix(f"{option}=")]
    return []


def _without(option: str, words: list[str]) -> list[str]:
    """Return the words without an option and its value."""
    if option in words:
        at = words.index(option)
        return [*words[:at], *words[at + 2 :]]
    return [word for word in words if not word.startswith(f"{option}=")]


def did_you_mean(typed: str, words: Iterable[str] | None) -> str:
    """Return `; did you mean preview?`, or nothing if no word of the command line is similar enough."""
    return similar.did_you_mean(typed, words or (), cutoff=_SIMILAR)


def verb_meant(typed: str, verbs: Iterable[str]) -> str:
    """Return the same for a verb, and never offer the opposite of what was typed."""
    beginning = typed[:2] if typed.startswith(_OPPOSITE) else ""
    return did_you_mean(typed, [verb for verb in verbs if verb.startswith(beginning)])
