"""Find lines that fail where their check is false: `test -x X && X`. cron ignores that exit code."""

from collections.abc import Iterator

from dcron.crontabfile.shellwords import CHECKS, SKIMMED, TOKEN

OPENING = {"if", "for", "while", "until", "case", "{"}
CLOSING = {"fi", "done", "esac", "}"}


def failing_guard(command: str) -> str | None:
    """Return the line as `if CHECK; then COMMAND; fi` if its exit code is that of a check that may be false.

    Return None for every other line, and for one too long to be read here.
    """
    if len(command) > SKIMMED:
        return None
    breaks = list(_breaks(command))
    if not breaks or any(mark not in {"&&", "|"} for mark, _ in breaks):
        return None  # what comes last decides, or `||` has an answer
    parts = _between(command, [at for mark, at in breaks if mark == "&&"])
    checks = next((number for number, part in enumerate(parts) if not _is_check(part)), len(parts))
    if not 0 < checks < len(parts):
        return None
    return f"if {' && '.join(parts[:checks])}; then {' && '.join(parts[checks:])}; fi"


def _breaks(command: str) -> Iterator[tuple[str, int]]:
    """Yield the marks between commands, with their places; none within `if … fi` or brackets."""
    depth, begins = 0, True
    for token in TOKEN.finditer(command):
        mark, word = token["break"], token["word"]
        if mark == "(" or (begins and word in OPENING):
            depth += 1
        elif mark == ")" or (begins and word in CLOSING):
            depth -= 1
        elif mark and depth == 0:
            yield mark, token.start()
        # After a keyword another command begins.
        begins = bool(mark) or (begins and word in OPENING | {"then", "else", "do", "!"})


def _between(command: str, places: list[int]) -> list[str]:
    starts = [0, *(place + len("&&") for place in places)]
    return [command[start:end].strip() for start, end in zip(starts, [*places, len(command)], strict=True)]


def _is_check(part: str) -> bool:
    words = part.removeprefix("!").split(maxsplit=2)
    return bool(words) and (words[0] in CHECKS or (words[0] == "command" and words[1:2] == ["-v"]))
