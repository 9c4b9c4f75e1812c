"""Real agents, and tasks whose runs have ended."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cli import DCRON, Dcron
from tests.support.patience import until


@contextmanager
def agent(dcron: Dcron, name: str = "web-1", *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a real agent while the block runs."""
    words = ["agent", "--name", name, "--lease", "10s", "--grace", "1s", "--db", dcron.url, *options]
    with subprocess.Popen([DCRON, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: any(node["pid"] == process.pid for node in dcron.done("nodes", "--json").json))
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


def run_once(dcron: Dcron, *names: str) -> list[int]:
    """Let one agent run these tasks to their ends; return the ids of the runs."""
    ids = [int(dcron.done("run", name, "--json").json["id"]) for name in names]
    dcron.run_due()
    return ids
