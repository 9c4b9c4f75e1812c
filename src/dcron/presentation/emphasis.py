"""Kinds of texts that stand out on a screen. The text itself says the same, for those who see no colours."""


class Struck(str):
    """A text that is struck through, because it will not happen. The text says so too."""


class Notable(str):
    """A text about an exception that the reader should see: a clock change, a freeze."""


class Past(str):
    """A text about what is over."""
