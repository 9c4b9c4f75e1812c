"""`python -m tests.faults.campaign.dying agent …`: an agent that kills itself between two statements.

$DIE_AT says where: `claim:3` is before the third statement, or the commit, of the first transaction in
which a turn is claimed that gets so far. The paths are functions of the agent: `claim`, `start`, `record`;
and the maintenance jobs by their names, such as `prune`.
"""

import os
import signal
import sys
from types import FrameType

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from dcron.__main__ import main

FUNCTIONS = {"claim": "_claim", "start": "start", "record": "_record"}
_path, _, _number = os.environ["DIE_AT"].partition(":")
_seen: dict[int, int] = {}


def _is_under(function: str, frame: FrameType | None) -> bool:
    while frame:
        if frame.f_code.co_name == function and "/dcron/agent/" in frame.f_code.co_filename:
            return _path in FUNCTIONS or frame.f_locals["job"].name == _path
        frame = frame.f_back
    return False


def _pass(connection: Connection) -> None:
    if _is_under(FUNCTIONS.get(_path, "_steps"), sys._getframe(1)):
        _seen[id(connection)] = _seen.get(id(connection), 0) + 1
        if _seen[id(connection)] == int(_number):
            os.kill(os.getpid(), signal.SIGKILL)


@event.listens_for(Engine, "begin")
def _begin(connection: Connection) -> None:
    _seen.pop(id(connection), None)


@event.listens_for(Engine, "before_cursor_execute")
def _before(connection: Connection, *_: object) -> None:
    _pass(connection)


event.listen(Engine, "commit", _pass)

if __name__ == "__main__":
    main()
