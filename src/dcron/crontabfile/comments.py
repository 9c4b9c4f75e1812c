"""Find the description of a task in the comments above it."""

import re

from dcron.crontabfile.lines import BLANK

EDGE = "#=*~-_"
RULE = re.compile(r"[#=*~_-]{3}")
HAS_WORDS = re.compile(r"[^\W_]")
FIELD = r"(?:[\d*]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)[\w*,/~#-]*+"
CRON_WORD = r"@(?:reboot|yearly|annually|monthly|weekly|daily|midnight|hourly|every|delay|at|on|after)"
DISABLED_JOB = re.compile(
    rf"-?(?:{CRON_WORD}|(?=[\d*]){FIELD}(?:[ \t]++{FIELD}){{4}})[ \t]++\S", re.IGNORECASE
)
DISABLED_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*+[ \t]*+=")
HEADING = re.compile(
    r"(?:m|mi|mn|min|mins|minutes?)\b.*\b(?:h|hr|hh|hours?)\b.*\b(?:dow|dw|wday|weekday|week)", re.IGNORECASE
)
HEADING_LENGTH = 200


def describe(comments: list[str]) -> str | None:
    """Return the description in the comment lines directly above a task, or None.

    A disabled task or assignment and a heading such as `# m h dom mon dow command` are no description, and
    neither are the comments above them.
    """
    found: list[str] = []
    for comment in comments:
        text = _bare(comment)
        if _is_disabled_line(text):
            found.clear()
        elif HAS_WORDS.search(text):
            found.append(text)
    return "\n".join(found) or None


def _bare(comment: str) -> str:
    text = comment.strip(BLANK).lstrip("#").strip(BLANK)
    if RULE.match(text) or RULE.match(text[-3:]):
        return text.strip(EDGE + BLANK)
    return text


def _is_disabled_line(text: str) -> bool:
    return bool(
        DISABLED_JOB.match(text) or DISABLED_VARIABLE.match(text) or HEADING.match(text[:HEADING_LENGTH])
    )
