"""Answer `dcron help [all | GROUP | VERB | TOPIC]`."""

from typing import Any, NoReturn

import typer

from dcron.cli.running.json_help import page
from dcron.cli.running.other_words import ALIASES, ANSWERS, answer, verb_meant, without_alias
from dcron.cli.running.topics import TOPICS
from dcron.cli.running.verbs import GROUPS, VERBS, every_verb, first_screen, group_page


def command_line(ctx: Any, words: list[str]) -> list[str]:
    """Return the command line that prints the help of a verb; print any other page, and raise Exit.

    Groups come before verbs and aliases. Raises a usage error for another word.
    """
    match words:
        case []:
            _print(first_screen())
        case ["all"]:
            _print(every_verb())
        case [group] if group in GROUPS:
            _print(group_page(group))
        case ["json", *document]:
            _print(page(" ".join(document)))
        case [topic] if topic in TOPICS:
            _print(TOPICS[topic].strip("\n"))
    verb = without_alias(words)
    if verb[0] in VERBS:
        _check_depth(ctx, verb)
        return [*verb, "--help"]
    hint = answer(words[0], words[1:])
    known = [*VERBS, *GROUPS, *TOPICS, *ALIASES, *ANSWERS, "all"]
    meant = f": {hint}" if hint else verb_meant(words[0], known) or "; `dcron help all` lists the verbs"
    raise typer.BadParameter(f"there is no help for {words[0]!r}{meant}", ctx)


def _check_depth(ctx: Any, verb: list[str]) -> None:
    """Raise a usage error for words behind a verb that has no verbs of its own."""
    found = ctx.command.get_command(ctx, verb[0])
    inner = verb[1:2] if hasattr(found, "commands") else []
    if extra := verb[1 + len(inner) :]:
        ctx.fail(f"leave out {' '.join(extra)!r}: `dcron help {' '.join([verb[0], *inner])}` is the page")


def _print(text: str) -> NoReturn:
    print(text.rstrip("\n"))
    raise typer.Exit
