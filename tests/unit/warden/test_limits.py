"""What a limit becomes: an rlimit by value, and what cannot be one."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dcron.warden.limits import LIMITS, LimitError, Rlimit, rlimits, spelled

ROOMY = 1 << 40


@pytest.fixture(autouse=True)
def own_hard_limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the hard limits the agent is said to have; it has none but these."""
    own: dict[int, int] = {}

    def getrlimit(number: int) -> tuple[int, int]:
        hard = own.get(number, resource.RLIM_INFINITY)
        return hard, hard

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    return own


@pytest.mark.parametrize(
    ("name", "value", "number", "hard"),
    [
        ("mem", 2 << 30, resource.RLIMIT_AS, 2 << 30),
        ("cpu-time", 60, resource.RLIMIT_CPU, 65),
        ("files", 100, resource.RLIMIT_NOFILE, 100),
        ("procs", 50, resource.RLIMIT_NPROC, 50),
        ("file-size", 1 << 30, resource.RLIMIT_FSIZE, 1 << 30),
        ("core", 0, resource.RLIMIT_CORE, 0),
    ],
)
def test_a_limit_is_an_rlimit(name: str, value: int, number: int, hard: int) -> None:
    assert rlimits({name: value}) == {name: Rlimit(number, value, hard)}


def test_every_limit_can_be_set_up_to_its_largest_number() -> None:
    largest = {"bytes": 1 << 62, "seconds": 1 << 32, "count": 1 << 31}
    every = {name: largest[kind] for name, kind in LIMITS.items()}
    assert list(rlimits(every)) == list(LIMITS)
    for name, value in every.items():
        with pytest.raises(LimitError, match=f"the limit {name}={value + 1} is not from 0 to {value} "):
            rlimits({name: value + 1})


def test_minus_one_is_not_without_limit() -> None:
    with pytest.raises(LimitError, match=r"^the limit core=-1 is not from 0 to \d+ \(bytes\)$"):
        rlimits({"core": -1})


def test_an_unknown_limit_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        LimitError, match=r"^there is no limit 'disk', only mem, cpu-time, files, procs, file-"
    ):
        rlimits({"mem": 1, "disk": 1})


def test_what_the_agent_may_not_have_it_cannot_give(own_hard_limits: dict[int, int]) -> None:
    own_hard_limits |= {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_AS: 3 << 29}
    assert rlimits({"files": 1024})["files"].hard == 1024
    with pytest.raises(LimitError) as files:
        rlimits({"files": 1025})
    assert str(files.value) == (
        "the limit files=1025 is more than this agent may give: 1024 (its own hard RLIMIT_NOFILE)"
    )
    with pytest.raises(LimitError, match=r"mem=2G is more than this agent may give: 1536M \(.* RLIMIT_AS"):
        rlimits({"mem": 2 << 30})


def test_the_grace_after_sigxcpu_ends_with_what_the_agent_has(own_hard_limits: dict[int, int]) -> None:
    own_hard_limits[resource.RLIMIT_CPU] = 62
    assert rlimits({"cpu-time": 60})["cpu-time"][1:] == (60, 62)
    assert rlimits({"cpu-time": 62})["cpu-time"][1:] == (62, 62)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1"), (1023, "1023"), (1024, "1K"), (1536, "1536"), (3 << 29, "1536M"), (5 << 40, "5T")],
)
def test_bytes_are_spelled_with_the_largest_unit_that_divides_them(value: int, text: str) -> None:
    assert spelled("bytes", value) == text
    assert spelled("count", value) == str(value)


CONFINE = """
import os, sys
from dcron.warden.limits import *
entrance = os.open(sys.argv[1], int(sys.argv[2]))
apply_limits(rlimits({"mem": 1 << 40, "files": 77}), entrance, {"mem"})
for number in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
    print(resource.getrlimit(number)[0])
"""


@pytest.mark.parametrize(("mode", "writes"), [("O_WRONLY", "0"), ("O_RDONLY", "")])
def test_an_rlimit_replaces_a_cgroup_without_the_process(tmp_path: Path, mode: str, writes: str) -> None:
    entrance = tmp_path / "cgroup.procs"
    entrance.touch()
    script = CONFINE.replace("int(sys.argv[2])", f"os.{mode}").replace(
        "import *", "import apply_limits, rlimits"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import resource\n" + script, str(entrance)],
        capture_output=True,
        text=True,
        check=True,
    )
    address_space, files = (int(line) for line in done.stdout.split())
    assert entrance.read_text() == writes
    assert (address_space == ROOMY) == (not writes)
    assert files == 77
