"""Make keys, pasted text and clicks act in the order in which they were typed, on every screen.

Textual gives a key to the focused widget. A letter acts there. Any other key goes from parent to parent and
acts in the app, several message queues later; a letter that was typed after it may act before. So the app
takes one key at a time: the next one waits until the one before, and all that it caused, has left the queues.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

Result = TypeVar("Result")
ROUNDS = 50
"""Most checks of the queues before the next key is taken anyway."""
BARRIER = 5.0
"""Longest wait for one queue, in seconds: a closed queue never answers."""
POLL = 0.005
IMPATIENT = 1.0
"""Seconds after which Esc, or a key that leaves the screen, replaces the keys that wait."""
LONGEST = 5.0
"""Seconds after which keys that wait for an answer are dropped."""
_LEAVING = ("quit", "back", "leave")
"""The actions of keys that leave a screen."""
_MOVES = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)
"""They are many, and no key depends on them."""


class Listener:
    """A screen that decides about keys; another screen takes every key at once."""

    def holds(self, event: events.Event) -> bool:
        """Return whether the event has to wait for an answer."""
        return False

    def hears(self, event: events.Event) -> bool:
        """Return whether the event is accepted. A dialog ignores keys from before it could be read."""
        return True


class OrderedApp(App[Result]):
    """An app in which keys act in the order in which they were typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._typed: deque[events.Event] = deque()
        """The events that wait."""
        self._current: events.Event | None = None
        """The event that acts now."""
        self._drainer: asyncio.Task[None] | None = None

    @property
    def is_draining(self) -> bool:
        """Whether a typed event waits or acts."""
        return self._drainer is not None and not self._drainer.done()

    def holds(self, event: events.Event) -> bool:
        """Return whether the event has to wait."""
        if not self.screen_stack or not self.screen.is_mounted:
            return True
        return self._listener().holds(event)

    def ends_waiting(self, event: events.Event) -> bool:
        """Return whether the event is for people who do not want to wait: Esc, or a key that leaves."""
        if not isinstance(event, events.Key) or not self.screen_stack:
            return False
        bound = self.screen.active_bindings.get(event.key)
        return event.key == "escape" or (bound is not None and bound.binding.action in _LEAVING)

    def hears(self, event: events.Event) -> bool:
        """Return whether the event is accepted."""
        return self._listener().hears(event)

    def was_dropped(self, dropped: Sequence[events.Event]) -> None:
        """Report that these were dropped: the answer did not come in time."""

    def forget_typed(self) -> None:
        """Drop the events that wait."""
        self._typed.clear()

    def exit(self, *arguments: Any, **named: Any) -> None:
        """End the app. The keys that wait are dropped."""
        self.forget_typed()
        super().exit(*arguments, **named)

    async def on_event(self, event: events.Event) -> None:
        """Queue typed events; handle others at once."""
        is_typed = isinstance(event, events.InputEvent | events.Paste) and not event.is_forwarded
        is_free = isinstance(event, _MOVES) and not self.is_draining
        if not is_typed or is_free or event is self._current:
            await super().on_event(event)
            return
        self._typed.append(event)
        if not self.is_draining:
            self._drainer = asyncio.create_task(self._drain())

    def on_unmount(self) -> None:
        """Stop the queue."""
        if self._drainer:
            self._drainer.cancel()

    async def typed_through(self) -> None:
        """Wait until all typed events have acted. Only for callers outside the app, such as tests."""
        while self._drainer and not self._drainer.done():
            await asyncio.wait([self._drainer])

    async def _drain(self) -> None:
        """Let one event after the other act, until none is left."""
        while await self._next_is_ready():
            event = self._typed.popleft()
            if self.hears(event):
                self._current = event
                self.post_message(event)
        self._current = None

    async def _next_is_ready(self) -> bool:
        """Wait until the next event can act; return False when there is none."""
        begun = time.monotonic()
        if self._current or not _are_empty(self._queues()):
            await self._settle()
        while self._typed and self.holds(self._typed[0]):
            await asyncio.sleep(POLL)
            await self._settle()
            waited = time.monotonic() - begun
            if waited >= IMPATIENT:
                self._drop(next((at for at, each in enumerate(self._typed) if self.ends_waiting(each)), 0))
            if waited >= LONGEST:
                self._drop(len(self._typed))
        return bool(self._typed)

    def _drop(self, count: int) -> None:
        dropped = [self._typed.popleft() for _ in range(count)]
        if dropped:
            self.was_dropped(dropped)

    async def _settle(self) -> None:
        """Wait until the queues between the focused widget and the app are empty."""
        for _ in range(ROUNDS):
            await self._pass(self)  # now the event is in the queue of its widget
            queues = self._queues()
            for each in queues:
                await self._pass(each)
            if queues == self._queues() and _are_empty(queues):
                return

    def _queues(self) -> list[MessagePump]:
        """Return the queues that a key passes, in order."""
        if not self.screen_stack:
            return [self]
        return list((self.focused or self.screen).ancestors_with_self)

    def _listener(self) -> Listener:
        top = self.screen_stack[-1] if self.screen_stack else None
        return top if isinstance(top, Listener) else Listener()

    async def _pass(self, pump: MessagePump) -> None:
        """Wait until the pump has handled its queue, for BARRIER seconds at most."""
        barrier = _Barrier()
        if pump.call_later(barrier.open):
            limit = asyncio.get_running_loop().call_later(BARRIER, barrier.open)
            await barrier.passed
            limit.cancel()


class _Barrier:
    """Something to wait for. Textual inspects each new function, which takes long, but a method only once."""

    def __init__(self) -> None:
        self.passed = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        if not self.passed.done():
            self.passed.set_result(None)


def _are_empty(pumps: Sequence[MessagePump]) -> bool:
    return not any(each.message_queue_size for each in pumps)
