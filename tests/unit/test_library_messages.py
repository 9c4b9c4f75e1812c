"""What libraries say of a broken connection is one line of the agent's log, in its format."""

import json
import logging

import pytest
from sqlalchemy.exc import OperationalError

from dcron.cli.running import agent_log
from dcron.cli.running.agent_log import LogFormat

TOLD = (
    (
        "psycopg",
        logging.WARNING,
        "error ignored terminating <psycopg.Pipeline [BAD] at 0x7f>: the connection is lost",
    ),
    ("sqlalchemy.pool.impl.QueuePool", logging.ERROR, "Exception during reset or similar"),
    ("dcron.database.pool.FrugalPool", logging.ERROR, "Exception during reset or similar"),
)


@pytest.fixture(autouse=True)
def loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the loggers of other tests as they are."""
    for name in ("dcron", "psycopg", "sqlalchemy"):
        log = logging.getLogger(name)
        monkeypatch.setattr(log, "handlers", [])
        monkeypatch.setattr(log, "propagate", True)
        monkeypatch.setattr(log, "level", log.level)


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize(("name", "level", "message"), TOLD)
def test_a_traceback_of_a_library_is_one_line(
    capsys: pytest.CaptureFixture[str], style: LogFormat, name: str, level: int, message: str
) -> None:
    agent_log.log_to_stderr(style)
    try:
        raise OperationalError("SELECT secret", {}, ConnectionError("server closed\nthe connection"))
    except OperationalError:
        logging.getLogger(name).log(level, message, exc_info=True)
    (line,) = capsys.readouterr().err.splitlines()
    if style == "json":
        found = json.loads(line)
        assert "traceback" not in found
        line = found["message"]
    assert message in line
    assert "OperationalError" in line
    assert "secret" not in line
