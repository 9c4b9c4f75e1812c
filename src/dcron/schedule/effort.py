"""Effort: count the steps of computing a time, so that none takes seconds and none holds a lock for long.

A step is about a microsecond on an ordinary machine. Steps are counted, not measured, so that a loaded
machine accepts the same schedules as an idle one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from dcron.errors import ScheduleError

MOST = 100_000
"""Most steps for one next time: a tenth of a second."""
UNDER_LOCK = 30_000
"""Most steps for all times in one transaction together."""
_DEAR = 1_000
"""A time that takes more steps is worth computing ahead. Cheaper ones are merely many."""
_MOST_ROUNDS = 1_000

P = ParamSpec("P")
T = TypeVar("T")


class TooMuchEffort(ScheduleError):  # noqa: N818 - named like the other errors of this package
    """A next time takes more than MOST steps."""

    def __init__(self) -> None:
        super().__init__(
            "its next time takes more than 0.1 s to compute: use a later DTSTART, a smaller COUNT, fewer BY"
            " parts, or several tasks"
        )


class NotUnderLock(Exception):  # noqa: N818 - an instruction to the transaction's owner, not an error
    """A time takes too long for a transaction: call `compute` outside, then repeat the transaction."""

    def __init__(self, compute: Callable[[], object]) -> None:
        super().__init__("a time has to be computed outside the transaction")
        self.compute = compute


class _State(threading.local):
    left: int | None = None
    """Steps left for the time being computed; None if none is."""
    allowance: int | None = None
    """Steps left for the current transaction; None outside of one."""
    is_short: bool = False


_state = _State()


def spend(steps: int) -> None:
    """Count these steps. Raises TooMuchEffort if the time being computed has used up its own."""
    if _state.left is not None:
        _state.left -= steps
        if _state.left < 0:
            raise TooMuchEffort


def require(steps: int) -> None:
    """Raise TooMuchEffort if a time would take this many steps without any cache."""
    if steps > MOST:
        raise TooMuchEffort


@contextmanager
def bounded(most: int = MOST) -> Iterator[None]:
    """Limit what is computed here to this many steps. Inside another bound, the outer one holds."""
    if _state.left is not None:
        yield
        return
    _state.left = most
    try:
        yield
    finally:
        _state.left = None


def is_short_of_time() -> bool:
    """Return whether a time is being computed with fewer steps than usual: in a transaction."""
    return _state.is_short


def affordable(compute: Callable[[], T]) -> T:
    """Call `compute`; in a transaction only as far as its allowance goes. `compute` caches what it finds.

    Raises: NotUnderLock if the allowance is used up, and TooMuchEffort.
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
    """Run a transaction; compute times that take long outside of it.

    If the transaction needs such a time, roll it back, compute the time, and run the transaction again.
    """
    if _state.allowance is not None:
        return transaction()
    allowance = UNDER_LOCK
    for _ in range(_MOST_ROUNDS):
        _state.allowance = allowance
        try:
            return transaction()
        except NotUnderLock as request:
            _state.allowance = None
            if _compute(request.compute) <= _DEAR:
                allowance *= 2
        finally:
            _state.allowance = None
    return transaction()


def repeatable(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that is one transaction, so that `unlocked` runs it."""

    @wraps(method)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        return unlocked(lambda: method(*args, **kwargs))

    return repeated


def _compute(compute: Callable[[], object]) -> int:
    """Compute a time, which caches it; return the steps it took."""
    with bounded():
        try:
            compute()
        except ScheduleError:  # the transaction meets it again and reports it in its place
            return MOST
        return MOST - (_state.left or 0)
