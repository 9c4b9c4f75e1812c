"""`dcron monitor` serves the figures of a crontab without an agent."""

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import DCRON, Dcron, real
from tests.support.patience import PATIENCE, until
from tests.support.scraping import get


@pytest.mark.slow
def test_it_serves_the_crontab_until_it_is_stopped(dcron: Dcron, tmp_path: Path) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    log = tmp_path / "log"
    environment = {**os.environ, "DCRON_DB": dcron.url}
    with (
        log.open("w") as stream,
        subprocess.Popen([str(DCRON), "monitor", "0"], stderr=stream, env=environment) as process,
    ):
        found = until(lambda: re.search(r"listens on 127\.0\.0\.1:(\d+)", log.read_text()))
        port = int(found[1])
        samples = get(port, "/cluster").samples()
        assert (samples["dcron_tasks{state=active}"], samples["dcron_nodes{state=alive}"]) == (1, 0)
        assert get(port, "/metrics").status == 404
        process.terminate()
        assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_taken_port_is_refused(sqlite: Dcron) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = real("monitor", str(port), url=sqlite.url)
    assert refused.code == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused.err


@pytest.mark.parametrize("words", [["monitor", "nowhere"], ["agent", "--once", "--monitor", "nowhere"]])
def test_what_is_no_address_is_wrong_usage(sqlite: Dcron, words: list[str]) -> None:
    wrong = sqlite(*words)
    assert wrong.code == 2
    assert "'nowhere' is no address to listen on" in wrong.err
