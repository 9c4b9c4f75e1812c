"""Clusters of real agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, cluster


@pytest.fixture
def team(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """An empty crontab on each kind of database in turn, for agents to come."""
    with cluster(database_url, tmp_path) as made:
        yield made
