"""The agent's log. Each message bears the name of what happened, and the run and task that it is about."""

import logging
from collections.abc import MutableMapping
from typing import Any

_FACTS = ("event", "run", "task")


class EventLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that takes the facts of a message by name: `log.warning(…, event="node-dead")`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Make attributes of the record of the facts."""
        return msg, {"extra": {name: kwargs.pop(name) for name in _FACTS if name in kwargs}, **kwargs}


log = EventLog(logging.getLogger("dcron.agent"))
