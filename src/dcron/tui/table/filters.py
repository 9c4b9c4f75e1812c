"""The filter language: words that must all match, `!word`, `field:value`, states like `late`, `|` for or."""

from collections.abc import Callable, Collection, Sequence

from dcron.errors import DcronError, UsageError
from dcron.model import RunState, Trigger
from dcron.policy.selectors import Selector
from dcron.services.dashboard import Dashboard
from dcron.services.fleet import Fleet
from dcron.tui.dialogs.prompt import LONGEST
from dcron.tui.host import Host
from dcron.tui.keys.completion import Completion, among
from dcron.values.lists import Term
from dcron.values.similar import similar

ERRORS = "errors"
"""The word for problems of all kinds, as the key for errors only shows them."""
STATES = ("late", "failed", "paused", "running", "dead", ERRORS)
"""Words that are states; `text:late` searches for the word."""
MOST_TERMS = 12
OR = "|"
"""Between words: what is before it, or what is after it."""
_RUN_STATES = ("ok", *(state.value for state in RunState))
_TASK_STATES = ("ok", "failed", "lost", "running", "paused", "late", "error", "new")
_TASK_WORDS = (*_TASK_STATES, *(state.value for state in RunState if state.value not in _TASK_STATES))
SHORTHANDS = {"state": "st", "tz": "zone", "cmd": "command"}


def parse_filter(text: str, fields: Collection[str]) -> tuple[Term, ...]:
    """Return the terms of a filter. Raises UsageError for an unknown field or value."""
    if len(text) > LONGEST:
        raise UsageError(f"a filter of {len(text)} characters; the limit is {LONGEST}")
    words = text.split()
    if (number := sum(word != OR for word in words)) > MOST_TERMS:
        raise UsageError(f"a filter of {number} words; the limit is {MOST_TERMS}")
    given = tuple(tuple(_term(word, fields) for word in group) for group in _alternatives(text))
    return given[0] if len(given) == 1 else (Term("any", alternatives=given),) if given else ()


def with_errors(text: str) -> str:
    """Return the filter that shows only the problems among what this one shows."""
    return f" {OR} ".join(" ".join([*group, ERRORS]) for group in _alternatives(text) or [[]])


def _alternatives(text: str) -> list[list[str]]:
    """Return the words between bars; none for an empty alternative, which may still be typed."""
    groups: list[list[str]] = [[]]
    for word in text.split():
        if word == OR:
            groups.append([])
        else:
            groups[-1].append(word)
    return [group for group in groups if group]


def words_of(fields: Collection[str], field: str = "") -> Sequence[str]:
    """Return the possible values of a field, empty if any is possible; without a field, all single words."""
    of_tasks = "late" in fields
    if field == "st":
        return _TASK_WORDS if of_tasks else _RUN_STATES
    if field == "trigger":
        return [trigger.value for trigger in Trigger]
    if field:
        return ()
    return [name if name in STATES else f"{name}:" for name in fields if name != "text"]


def complete_filter(
    host: Host, fields: Collection[str], text: str, take: Callable[[Completion], None]
) -> None:
    """Find what may follow the text of a filter: a field, a state, a node or a queue."""
    word = text.rpartition(" ")[2].removeprefix("!")
    field, colon, value = word.partition(":")
    if not colon:
        take(among(word, words_of(fields), ends=""))
    elif field in ("node", "owner"):
        complete_from_database(host, value, node_names, take)
    elif field == "label":
        _complete_label(host, value, take)
    elif field == "queue":
        complete_from_database(host, value, _queue_names, take)
    else:
        take(among(value, words_of(fields, field)))


def _complete_label(host: Host, text: str, take: Callable[[Completion], None]) -> None:
    """Find the keys of labels, or the values of the key that was typed."""
    key, equals, _ = text.partition("=")
    if equals:
        complete_from_database(
            host, text, lambda board: [f"{key}={value}" for value in board.label_values(key)], take
        )
    else:
        complete_from_database(host, text, lambda board: [f"{key}=" for key in board.label_keys()], take, "")


def complete_from_database(
    host: Host,
    word: str,
    names: Callable[[Dashboard], Sequence[str]],
    take: Callable[[Completion], None],
    ends: str = " ",
) -> None:
    """Read names from the database and hand on those that begin with the word; `ends` follows one alone."""

    def refused(error: DcronError) -> None:
        take(Completion(word, ()))
        host.report_error(error)

    host.reads.ask("completion", lambda board: among(word, names(board), ends), take, refused, waits=False)


def node_names(board: Dashboard) -> Sequence[str]:
    """Return the names of all nodes."""
    return [node.name for node in board.nodes()]


def _queue_names(board: Dashboard) -> Sequence[str]:
    return [each.name for each in Fleet(board.crontab).queues()]


def _term(word: str, fields: Collection[str]) -> Term:
    negated = word.startswith("!") and len(word) > 1
    word = word[1:] if negated else word
    if word.lower() in STATES and word.lower() in fields:
        return Term(word.lower(), negated=negated)
    field, colon, value = word.partition(":")
    if not colon or not field.isalpha():
        return Term("text", word, negated)
    field = SHORTHANDS.get(field.lower(), field.lower())
    takes = [name for name in fields if name not in STATES]
    if field not in takes:
        near = similar(field, takes)
        hint = f"; did you mean {near[0]}:?" if near else f"; there are {', '.join(sorted(takes))}"
        raise UsageError(f"no field {field}:{hint}")
    possible = words_of(fields, field)
    if value and possible and value.lower() not in possible:
        raise UsageError(f"{field}: is one of {', '.join(possible)}; not {value!r}")
    if field == "label" and value:
        Selector.parse(value)  # raises UsageError where it is mistyped
    # A field without a value matches everything: the value is still being typed.
    return Term(field, value, negated) if value else Term("text", "", negated=False)
