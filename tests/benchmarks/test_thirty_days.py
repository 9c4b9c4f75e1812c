"""A month of constant load on simulated time: nothing grows once retention has set in."""

import pytest

from benchmarks.bench_thirty_days import DAYS, WARM_UP, play
from dcron.services.doctor import Doctor
from tests.support.stage import Stage

pytestmark = pytest.mark.slow

RUNS = 300


def test_thirty_days_of_constant_load_make_nothing_grow(database_url: str) -> None:
    stage = Stage(database_url)
    sizes = list(play(stage, RUNS, WARM_UP + DAYS))
    before, after = sizes[WARM_UP - 1], sizes[WARM_UP:]
    assert {size.runs for size in after} == {before.runs}
    assert max(size.bytes for size in after) < 1.1 * before.bytes
    # The last day is over at noon: its second half is not counted yet.
    assert sizes[-1].counted == RUNS * len(sizes) - RUNS // 2
    retention = ("retention-behind", "maintenance-behind", "maintenance-failed")
    assert not {finding.code for finding in Doctor(stage.database).examine()}.intersection(retention)
    stage.forward(days=10)
    assert "retention-behind" in [finding.code for finding in Doctor(stage.database).examine()]
    stage.database.close()
