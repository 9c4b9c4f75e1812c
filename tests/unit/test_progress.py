"""What `make` prints while it installs: a line every few seconds, on a terminal as on a pipe."""

import sys
from queue import Queue

import pytest

from scripts import progress


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)


def test_a_silent_command_gives_signs_of_life_that_name_its_step() -> None:
    output: Queue[str | None] = Queue()
    steps = progress.steps(output)
    assert next(steps) == "..."
    output.put("Installing build dependencies: started")
    assert next(step for step in steps if step != "...") == "installing build dependencies ..."
    output.put("Installing collected packages: tzdata, rich, textual")
    shown = next(step for step in steps if "build" not in step)
    assert shown == "writing packages to the disk: 3 ..."
    output.put(None)
    assert set(steps) <= {shown}


def test_the_packages_that_pip_fetches_are_named_whether_from_an_index_or_a_file() -> None:
    output: Queue[str | None] = Queue()
    for line in ("Collecting alembic<2,>=1.16 (from dcrontab==0.1.0)", "  Downloading alembic.whl", None):
        output.put(line)
    assert list(progress.steps(output)) == ["alembic"]
    output.put("Processing /srv/wheels/prometheus_client-0.26.0-py3-none-any.whl (from dcrontab==0.1.0)")
    output.put(None)
    assert list(progress.steps(output)) == ["prometheus_client"]


def test_the_exit_code_is_that_of_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('Collecting a<2'); print('no such package', file=sys.stderr); sys.exit(3)"
    assert progress.main([sys.executable, "-c", program]) == 3
    shown, failures = capfd.readouterr()
    assert " s  a\n" in shown
    assert failures == "no such package\n"
