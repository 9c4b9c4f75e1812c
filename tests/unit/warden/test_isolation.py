"""What an isolated warden keeps of the /proc that it replaces."""

from pathlib import Path

import pytest

from dcron.warden.isolation import hiding_options, why_unavailable

PLAIN = "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n"
HIDDEN = "23 22 0:22 / /proc rw,nosuid shared:6 - proc proc rw,gid=104,hidepid=invisible\n"
ELSEWHERE = "24 1 0:23 / /jail/proc rw - proc proc rw,hidepid=invisible\n"


@pytest.mark.parametrize(
    ("mounts", "options"),
    [
        ("", ""),
        (PLAIN, ""),
        (PLAIN + ELSEWHERE, ""),
        (PLAIN + HIDDEN, "gid=104,hidepid=invisible"),
        (HIDDEN + PLAIN, ""),
    ],
)
def test_processes_stay_hidden_from_each_other_where_they_were(mounts: str, options: str) -> None:
    assert hiding_options(mounts) == options


def test_to_find_out_changes_nothing() -> None:
    ours = [Path("/proc/self/ns/pid_for_children"), Path("/proc/self/ns/mnt")]
    before = [each.readlink() for each in ours]
    assert (why_unavailable() is None) or "needs" in str(why_unavailable())
    assert [each.readlink() for each in ours] == before
