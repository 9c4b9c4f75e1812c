"""Effort: the steps that computing a time takes, counted, so that none takes seconds and none holds a lock.

A step is about a microsecond on an ordinary machine. Steps are counted, not measured, so a loaded machine
refuses nothing that an idle one takes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from dcron.errors import ScheduleError

MOST = 100_000
"""Steps that one next time may take: a tenth of a second."""
UNDER_LOCK = 30_000
"""Steps that all times in one transaction may take together."""
_DEAR = 1_000
"""A time that takes more steps is worth computing ahead; cheaper ones are only too many."""
_MOST_ROUNDS = 1_000

P = ParamSpec("P")
T = TypeVar("T")


class TooMuchEffort(ScheduleError):  # noqa: N818 - said as people say it, like the others
    """A next time that takes more than MOST steps."""

    def __init__(self) -> None:
        super().__init__(
            "its next time takes more than 0.1 s to compute: use a later DTSTART, a smaller COUNT, fewer BY"
            " parts, or several tasks"
        )


class NotUnderLock(Exception):  # noqa: N818 - an instruction to the transaction's owner, no error of a user
    """A time that takes too long for a transaction: `compute` it outside, then repeat the transaction."""

    def __init__(self, compute: Callable[[], object]) -> None:
        super().__init__("a time has to be computed outside the transaction")
        self.compute = compute


class _State(threading.local):
    left: int | None = None
    """Steps that the time being computed may still take; None while none is."""
    allowance: int | None = None
    """Steps that the transaction under way may still take; None outside of one."""
    is_short: bool = False


_state = _State()


def spend(steps: int) -> None:
    """Count these steps. Raises TooMuchEffort when the time being computed has used up its own."""
    if _state.left is not None:
        _state.left -= steps
        if _state.left < 0:
            raise TooMuchEffort


def require(steps: int) -> None:
    """Raise TooMuchEffort where a time would take so many steps, had nothing been remembered."""
    if steps > MOST:
        raise TooMuchEffort


@contextmanager
def bounded(most: int = MOST) -> Iterator[None]:
    """Let what is computed here take so many steps; within another bound, that one holds."""
    if _state.left is not None:
        yield
        return
    _state.left = most
    try:
        yield
    finally:
        _state.left = None


def is_short_of_time() -> bool:
    """Whether a time is being computed with fewer steps than it may take: in a transaction."""
    return _state.is_short


def affordable(compute: Callable[[], T]) -> T:
    """Compute it; in a transaction only as far as its allowance goes. `compute` remembers what it finds.

    Raises NotUnderLock beyond that, and TooMuchEffort.
    """
    allowance = _state.allowance
    if allowance is None or _state.left is not None:
        with bounded():
            return compute()
    most = max(0, min(allowance, MOST))
    try:
        with bounded(most):
            _state.is_short = most < MOST
            try:
                return compute()
            finally:
                _state.is_short = False
                _state.allowance = allowance - (most - max(0, _state.left or 0))
    except TooMuchEffort:
        if most < MOST:
            raise NotUnderLock(compute) from None
        raise


def unlocked(transaction: Callable[[], T]) -> T:
    """Do one transaction whose times are computed outside it, but for what takes no time.

    It is given up, and done again, when it comes to a time that is not known yet and takes too long.
    """
    if _state.allowance is not None:
        return transaction()
    allowance = UNDER_LOCK
    for _ in range(_MOST_ROUNDS):
        _state.allowance = allowance
        try:
            return transaction()
        except NotUnderLock as wanted:
            _state.allowance = None
            if _compute(wanted.compute) <= _DEAR:
                allowance *= 2
        finally:
            _state.allowance = None
    return transaction()


def repeatable(method: Callable[P, T]) -> Callable[P, T]:
    """Make a method of one transaction one that `unlocked` does."""

    @wraps(method)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        return unlocked(lambda: method(*args, **kwargs))

    return repeated


def _compute(compute: Callable[[], object]) -> int:
    """Compute it, for it to be remembered; the steps it took."""
    with bounded():
        try:
            compute()
        except ScheduleError:  # the transaction comes to it again, and says so where it belongs
            return MOST
        return MOST - (_state.left or 0)
