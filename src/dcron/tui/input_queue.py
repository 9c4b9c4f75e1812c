"""Keys, pasted text and clicks act in the order in which they were typed, on every screen.

Textual gives a key to the focused widget. A letter acts there. Any other key goes on from parent to parent
and acts in the app, several message queues later; a letter that was typed after it has acted by then. So the
app takes one key at a time: the next one waits until the one before, and all that it caused, has left the
queues.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

Result = TypeVar("Result")
ROUNDS = 50
"""Looks at the queues before the next key is taken all the same."""
BARRIER = 5.0
"""Longest wait for one queue, in seconds: one that has been closed never gets there."""
POLL = 0.005
IMPATIENT = 1.0
"""Seconds that keys wait before Esc, or a key that leaves the screen, takes their place."""
LONGEST = 5.0
"""Seconds after which keys that wait for an answer are dropped."""
_LEAVING = ("quit", "back", "leave")
"""The actions of keys that leave a screen."""
_MOVES = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)
"""They come in crowds, and no key depends on them."""


@runtime_checkable
class Listener(Protocol):
    """What a screen may say about keys; a screen that says nothing takes every key at once."""

    def holds(self, event: events.Event) -> bool:
        """Return whether the event has to wait: for an answer, or for something that is still opening."""

    def hears(self, event: events.Event) -> bool:
        """Return whether the event counts; a question ignores what was typed before it could be read."""


class OrderedApp(App[Result]):
    """An app in which keys act in the order in which they were typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._typed: deque[events.Event] = deque()
        """What waits for its turn."""
        self._current: events.Event | None = None
        """What acts now."""
        self._turns: asyncio.Task[None] | None = None

    @property
    def is_taking_turns(self) -> bool:
        """Whether something that was typed still waits or acts."""
        return self._turns is not None and not self._turns.done()

    def holds(self, event: events.Event) -> bool:
        """Return whether the event has to wait."""
        if not self.screen_stack or not self.screen.is_mounted:
            return True
        listener = self._listener()
        return listener is not None and listener.holds(event)

    def ends_waiting(self, event: events.Event) -> bool:
        """Return whether the event is of those that are for people who do not want to wait."""
        if not isinstance(event, events.Key) or not self.screen_stack:
            return False
        bound = self.screen.active_bindings.get(event.key)
        return event.key == "escape" or (bound is not None and bound.binding.action in _LEAVING)

    def hears(self, event: events.Event) -> bool:
        """Return whether the event counts."""
        listener = self._listener()
        return listener is None or listener.hears(event)

    def was_dropped(self, dropped: Sequence[events.Event]) -> None:
        """Say that these do nothing: what they waited for did not come in time."""

    def forget_typed(self) -> None:
        """Drop what waits for its turn."""
        self._typed.clear()

    def exit(self, *arguments: Any, **named: Any) -> None:
        """Leave. What was typed after that is for the shell."""
        self.forget_typed()
        super().exit(*arguments, **named)

    async def on_event(self, event: events.Event) -> None:
        """Let what is typed wait for its turn; anything else is handled at once."""
        is_typed = isinstance(event, events.InputEvent | events.Paste) and not event.is_forwarded
        is_free = isinstance(event, _MOVES) and not self.is_taking_turns
        if not is_typed or is_free or event is self._current:
            await super().on_event(event)
            return
        self._typed.append(event)
        if not self.is_taking_turns:
            self._turns = asyncio.create_task(self._take_turns())

    def on_unmount(self) -> None:
        """Stop."""
        if self._turns:
            self._turns.cancel()

    async def typed_through(self) -> None:
        """Wait until all that was typed has acted. Only for callers outside the app, such as tests."""
        while self._turns and not self._turns.done():
            await asyncio.wait([self._turns])

    async def _take_turns(self) -> None:
        """Let one event after the other act, until none is left and all have acted."""
        while await self._next_is_ready():
            event = self._typed.popleft()
            if self.hears(event):
                self._current = event
                self.post_message(event)
        self._current = None

    async def _next_is_ready(self) -> bool:
        """Wait until the next event can act; return False when there is none."""
        begun = time.monotonic()
        if self._current or not _are_empty(self._way()):
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
        """Wait until nothing is left in the queues between the focused widget and the app."""
        for _ in range(ROUNDS):
            await self._pass(self)  # now it is in the queue of the widget that it is for
            way = self._way()
            for each in way:
                await self._pass(each)
            if way == self._way() and _are_empty(way):
                return

    def _way(self) -> list[MessagePump]:
        """Return the queues that a key passes, in its order."""
        if not self.screen_stack:
            return [self]
        return list((self.focused or self.screen).ancestors_with_self)

    def _listener(self) -> Listener | None:
        top = self.screen_stack[-1] if self.screen_stack else None
        return top if isinstance(top, Listener) else None

    async def _pass(self, pump: MessagePump) -> None:
        """Wait until the pump has handled all that is in its queue now; not for long."""
        loop = asyncio.get_running_loop()
        passed = loop.create_future()

        def done() -> None:
            if not passed.done():
                passed.set_result(None)

        if pump.call_later(done):
            limit = loop.call_later(BARRIER, done)
            await passed
            limit.cancel()


def _are_empty(pumps: Sequence[MessagePump]) -> bool:
    return not any(each.message_queue_size for each in pumps)
