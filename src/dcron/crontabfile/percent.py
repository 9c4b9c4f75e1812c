"""The percent sign of crontab(5): it ends the command, and what follows is the command's standard input.

As in cron's own code, the two halves have different escapes. In the command, a backslash pairs with the
character after it: two backslashes and % are two backslashes and the end. In the input, a backslash and % are
always a percent sign. So some texts cannot be expressed: the caller of `join` reads the result back.
"""

import re

PAIR_OR_END = re.compile(r"\\.|%", re.DOTALL)
INPUT_MARK = re.compile(r"\\?%")


def split(text: str) -> tuple[str, str | None]:
    """Return the command and the standard input of the rest of a crontab line."""
    pieces: list[str] = []
    begin = 0
    for mark in PAIR_OR_END.finditer(text):
        if mark[0] == "%":
            pieces.append(text[begin : mark.start()])
            return "".join(pieces), _input(text[mark.end() :])
        if mark[0] == "\\%":
            pieces.append(text[begin : mark.start()])
            begin = mark.start() + 1
    pieces.append(text[begin:])
    return "".join(pieces), None


def join(command: str, stdin: str | None) -> str:
    """Return the rest of a crontab line for this command and input, as far as crontab(5) can express it."""
    line = command.replace("%", r"\%")
    if stdin is None:
        return line
    return line + "%" + stdin.replace("%", r"\%").removesuffix("\n").replace("\n", "%")


def _input(text: str) -> str:
    """Return the input with a newline at its end, as cron does, unless it is empty."""
    lines = INPUT_MARK.sub(lambda mark: "\n" if mark[0] == "%" else "%", text)
    return lines if not lines or lines.endswith("\n") else lines + "\n"
