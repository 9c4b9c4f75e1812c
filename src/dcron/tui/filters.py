"""The filter language: words that all have to hold, `!word`, `field:value`, and states such as `late`."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from dcron.errors import UsageError
from dcron.model import RunState, Trigger
from dcron.store.search_terms import RUN_FIELDS, TASK_FIELDS, Term

STATES = ("late", "failed", "paused", "running", "dead")
"""Words that stand for themselves; `text:late` looks for the word."""
LONGEST = 200
MOST_TERMS = 12
_RUN_STATES = ("ok", *(state.value for state in RunState))
_TASK_STATES = ("ok", "failed", "lost", "running", "paused", "late", "error", "new")
_TASK_WORDS = (*_TASK_STATES, *(state.value for state in RunState if state.value not in _TASK_STATES))
SHORTHANDS = {"state": "st", "tz": "zone", "cmd": "command"}


def parse_filter(text: str, fields: Collection[str]) -> tuple[Term, ...]:
    """The terms of a filter. Raises UsageError for a field that there is none of."""
    if len(text) > LONGEST:
        raise UsageError(f"a filter of {len(text)} characters; {LONGEST} are the most")
    terms = tuple(_term(word, fields) for word in text.split())
    if len(terms) > MOST_TERMS:
        raise UsageError(f"a filter of {len(terms)} words; {MOST_TERMS} are the most")
    return terms


def parse_task_filter(text: str) -> Sequence[Term]:
    """A filter for tasks."""
    return parse_filter(text, TASK_FIELDS)


def parse_run_filter(text: str) -> Sequence[Term]:
    """A filter for runs."""
    return parse_filter(text, RUN_FIELDS)


def words_of(fields: Collection[str], field: str = "") -> Sequence[str]:
    """Return the only values of a field, or nothing where any will do; without a field, all single words."""
    of_tasks = "late" in fields
    if field == "st":
        return _TASK_WORDS if of_tasks else _RUN_STATES
    if field == "trigger":
        return [trigger.value for trigger in Trigger]
    if field:
        return ()
    return [name if name in STATES else f"{name}:" for name in fields if name not in ("errors", "text")]


def _term(word: str, fields: Collection[str]) -> Term:
    negated = word.startswith("!") and len(word) > 1
    word = word[1:] if negated else word
    if word.lower() in STATES and word.lower() in fields:
        return Term(word.lower(), negated=negated)
    field, colon, value = word.partition(":")
    if not colon or not field.isalpha():
        return Term("text", word, negated)
    field = SHORTHANDS.get(field.lower(), field.lower())
    takes = [name for name in fields if name not in STATES and name != "errors"]
    if field not in takes:
        near = get_close_matches(field, takes, n=1)
        hint = f"; did you mean {near[0]}:?" if near else f"; there are {', '.join(sorted(takes))}"
        raise UsageError(f"no field {field}:{hint}")
    possible = words_of(fields, field)
    if value and possible and value.lower() not in possible:
        raise UsageError(f"{field}: is one of {', '.join(possible)}; not {value!r}")
    # While the value is being typed, the field alone asks for nothing yet.
    return Term(field, value, negated) if value else Term("text", "", negated=False)
