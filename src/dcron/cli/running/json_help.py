"""The pages of `dcron help json`: what all JSON has in common, and the keys of one document."""

from collections.abc import Iterator
from textwrap import fill

from dcron.cli.output.documents import Key, keys, printed, shapes
from dcron.cli.running.other_words import did_you_mean
from dcron.cli.running.topics import TOPICS
from dcron.errors import NotFound


def page(document: str = "") -> str:
    """Return the conventions, or the keys of one document. Raises NotFound."""
    if not document:
        return TOPICS["json"] + fill(
            " ".join(shapes()), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    if document not in shapes():
        raise NotFound(f"there is no JSON document {document!r}{did_you_mean(document, shapes())}")
    return "\n".join(_lines(document))


def verbs_of(document: str) -> list[str]:
    """Return the verbs that print this document, with `[]` for an array."""
    return [f"{verb}{'[]' * many}" for verb, (name, many) in printed().items() if name == document]


def _lines(document: str) -> Iterator[str]:
    verbs = verbs_of(document)
    yield f"{document}: {', '.join(verbs) if verbs else 'a part of other documents'}"
    yield ""
    found = keys(document)
    width = max(len(key.name) for key in found)
    yield from (f"  {key.name:<{width}}  {_meaning(key)}" for key in found)


def _meaning(key: Key) -> str:
    kind = key.type.removeprefix("@")
    many = {"[]": f"array of {kind}", "{}": f"object: {kind} by name"}.get(key.many, kind)
    null, absent = ", or null" * key.may_be_null, ", may be absent" * key.may_be_absent
    return f"{many}{null}{absent}" + (f" (until 0.3 also: {key.old})" if key.old else "")
