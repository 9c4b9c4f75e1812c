"""Clusters of real agents, and a warden without an agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, cluster
from tests.support.harness import Harness


@pytest.fixture
def team(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """An empty crontab on each kind of database in turn, for agents to come."""
    with cluster(database_url, tmp_path) as made:
        yield made


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """Return a warden that is allowed to start commands."""
    harness = Harness(tmp_path)
    yield harness
    harness.close()
