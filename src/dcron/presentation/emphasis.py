"""Kinds of texts that are highlighted. Each text says the same in words, for readers who see no colours."""


class Struck(str):
    """A text that is struck through, because what it announces will not happen."""


class Notable(str):
    """A text about an exception that the reader should see: a clock change, a freeze."""


class Past(str):
    """A text about a time that has passed."""
