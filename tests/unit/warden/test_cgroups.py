"""Cgroups on a tree of plain files that keeps the kernel's rules: what is divided, made, killed, removed."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from dcron.warden import cgroups
from dcron.warden.cgroups import LEAF, Cgroup, Cgroups, delegated_cgroups, divide, end_cgroups_of, own_cgroup
from dcron.warden.escalation import Escalation

AGENT, WARDEN = 4001, 4002
OURS = (AGENT, WARDEN)
NODE = "web-1-0000000a"


class Tree:
    """The file system of the kernel, as far as it matters here."""

    def __init__(self, root: Path, controllers: str = "cpu memory pids") -> None:
        self.root = root
        self.refuse: str | None = None
        """A file to which nothing can be written."""
        self.writes: list[tuple[str, str]] = []
        self._make, self._unmake = os.mkdir, os.rmdir
        self.make(str(root), controllers=controllers)

    def make(self, path: str, mode: int = 0o777, *, controllers: str | None = None) -> None:
        """Make a cgroup: its files come by themselves, and its controllers from the one above."""
        self._make(path, mode)
        directory = Path(path)
        if controllers is None:
            controllers = (directory.parent / "cgroup.subtree_control").read_text()
        (directory / "cgroup.controllers").write_text(controllers)
        names = ["cgroup.procs", "cgroup.subtree_control", "cgroup.kill"]
        if "memory" in controllers:
            names += ["memory.max", "memory.oom.group", "memory.events"]
        if "pids" in controllers:
            names += ["pids.max"]
        for name in names:
            (directory / name).touch()

    def unmake(self, path: str) -> None:
        """Remove a cgroup in which nothing lives."""
        directory = Path(path)
        if self.procs(directory) or any(each.is_dir() for each in directory.iterdir()):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        for file in directory.iterdir():
            file.unlink()
        self._unmake(path)

    def write(self, path: str, text: str) -> None:
        """Write to one of the files."""
        file = Path(path)
        self.writes.append((str(file.relative_to(self.root)), text))
        if file.name == self.refuse:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if file.name == "cgroup.procs":
            for other in self.root.rglob("cgroup.procs"):
                other.write_text("".join(f"{pid}\n" for pid in self.procs(other.parent) if pid != int(text)))
            text = "".join(f"{pid}\n" for pid in [*self.procs(file.parent), int(text)])
        elif file.name == "cgroup.subtree_control":
            if self.procs(file.parent):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
            text = " ".join(sorted({*file.read_text().split(), *text.replace("+", "").split()}))
        file.write_text(text)

    def put(self, directory: Path, pids: Collection[int]) -> None:
        """Have processes in a cgroup."""
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def procs(self, directory: Path) -> list[int]:
        """Return the processes in a cgroup."""
        return [int(pid) for pid in (directory / "cgroup.procs").read_text().split()]

    def groups(self) -> list[str]:
        """Return the cgroups below the root."""
        return sorted(each.name for each in self.root.iterdir() if each.is_dir())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """A cgroup that is lent to an agent and its warden, who live in it."""
    tree = Tree(tmp_path / "dcron.service")
    tree.put(tree.root, OURS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", tree.make)
        patch.setattr(os, "rmdir", tree.unmake)
        patch.setattr(cgroups, "_write", tree.write)
        yield tree


@pytest.fixture
def lent(tree: Tree) -> Cgroups:
    """Cgroups for runs."""
    return divide(str(tree.root), OURS, systemd=False, node_id=NODE)


def made(lent: Cgroups, run_id: int, **limits: int) -> Cgroup:
    cgroup = lent.make(run_id, limits)
    assert cgroup is not None
    return cgroup


def files(cgroup: Cgroup, *names: str) -> list[str]:
    return [(Path(cgroup.path) / name).read_text() for name in names]


# -- where we are

MOUNTS = """\
25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw
31 25 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID = """\
31 25 0:27 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
33 31 0:29 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory
"""


@pytest.mark.parametrize(
    ("own", "mounts", "directory"),
    [
        ("0::/system.slice/dcron.service\n", MOUNTS, "/sys/fs/cgroup/system.slice/dcron.service"),
        ("0::/\n", MOUNTS, "/sys/fs/cgroup"),
        ("4:memory:/a\n0::/b\n", HYBRID, "/sys/fs/cgroup/unified/b"),
        ("0::/docker/abc/x\n", MOUNTS.replace(" / /sys/fs", " /docker/abc /sys/fs"), "/sys/fs/cgroup/x"),
        ("0::/docker/xyz\n", MOUNTS.replace(" / /sys/fs", " /docker/abc /sys/fs"), None),
        ("0::/../other\n", MOUNTS, None),
        ("4:memory:/a\n", HYBRID, None),
        ("0::/a\n", HYBRID.replace("cgroup2", "cgroup"), None),
        ("", "", None),
    ],
)
def test_our_directory_is_found_by_what_the_kernel_says(own: str, mounts: str, directory: str | None) -> None:
    assert own_cgroup(own, mounts) == directory


def test_whatever_this_machine_has_looking_at_it_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Cgroups:
        raise PermissionError

    monkeypatch.setattr(cgroups, "divide", refused)
    monkeypatch.setattr(cgroups, "own_cgroup", lambda *_: "/somewhere")
    assert delegated_cgroups(NODE, (os.getpid(),)).make(1, {"mem": 1}) is None


# -- what is lent to us


def test_agent_and_warden_make_room_in_a_leaf(tree: Tree) -> None:
    lent = divide(str(tree.root), OURS, systemd=False, node_id=NODE)
    assert lent.base == str(tree.root)
    assert tree.procs(tree.root) == []
    assert tree.procs(tree.root / LEAF) == [AGENT, WARDEN]
    assert (tree.root / "cgroup.subtree_control").read_text() == "memory pids"


def test_the_next_warden_finds_it_divided(tree: Tree, lent: Cgroups) -> None:
    """It is born in the leaf, and only uses what is there."""
    before = len(tree.writes)
    again = divide(str(tree.root / LEAF), (AGENT, 4003), systemd=False, node_id=NODE)
    assert again.base == lent.base
    assert tree.writes[before:] == []


def test_where_others_live_nothing_is_changed(tree: Tree) -> None:
    tree.put(tree.root, (1, *OURS))
    with pytest.raises(OSError, match="busy"):
        divide(str(tree.root), OURS, systemd=False, node_id=NODE)
    assert tree.procs(tree.root) == [1, *OURS]
    assert tree.groups() == []


def test_who_cannot_divide_it_moves_back(tree: Tree) -> None:
    tree.refuse = "cgroup.subtree_control"
    with pytest.raises(PermissionError):
        divide(str(tree.root), OURS, systemd=False, node_id=NODE)
    assert tree.procs(tree.root) == [*OURS]
    assert tree.groups() == []


@pytest.mark.parametrize(("mark", "lent"), [(b"1", True), (b"0", False), (None, False)])
def test_below_systemd_only_what_is_delegated_is_lent(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, mark: bytes | None, lent: bool
) -> None:
    def getxattr(path: str, name: str) -> bytes:
        if mark is None or name != "user.delegate":
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), path)
        return mark

    monkeypatch.setattr(os, "getxattr", getxattr)
    assert (divide(str(tree.root), OURS, systemd=True, node_id=NODE).base is not None) == lent
    assert bool(tree.writes) == lent


def test_without_controllers_a_cgroup_only_holds_processes(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "bare", controllers="cpu hugetlb")
    made = divide(str(tree.root), OURS, systemd=False, node_id=NODE).make(1, {"mem": 1})
    assert made is not None
    assert made.limits == {}


def test_what_a_killed_warden_left_is_killed_and_removed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is that node's: neither another's, nor that of one whose name ends with its ID."""
    monkeypatch.setattr(cgroups, "mount_point", lambda _: str(tree.root))
    full = tree.root / "service" / f"dcron-run-2-{NODE}"
    others = [tree.root / f"dcron-run-1-x-{NODE}", tree.root / f"dcron-run-1-{NODE}b"]
    for directory in (full.parent, full, tree.root / f"dcron-run-1-{NODE}", *others):
        tree.make(str(directory))
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        tree.put(full, [sleeper.pid])
        monkeypatch.setattr(time, "sleep", lambda _: tree.put(full, []))
        assert end_cgroups_of(NODE) == 1
        assert sleeper.wait() == -signal.SIGKILL
    assert tree.groups() == sorted(["service", *(each.name for each in others)])
    assert not full.exists()


# -- the cgroup of a run


def test_a_run_gets_its_limits_and_dies_as_a_whole(lent: Cgroups) -> None:
    cgroup = made(lent, 7, mem=2 << 30, procs=50, files=9)
    assert cgroup.path == f"{lent.base}/dcron-run-7-{NODE}"
    assert files(cgroup, "memory.max", "memory.oom.group", "pids.max") == [str(2 << 30), "1", "50"]
    assert cgroup.limits == {"mem": 2 << 30, "procs": 50}
    cgroup.kill()
    assert files(cgroup, "cgroup.kill") == ["1"]


def test_a_run_without_limits_has_a_cgroup_too(lent: Cgroups) -> None:
    cgroup = lent.make(7, {})
    assert cgroup is not None
    assert (cgroup.limits, cgroup.processes()) == ({}, [])


def test_a_limit_the_kernel_cannot_count_to_is_its_largest(lent: Cgroups) -> None:
    assert files(made(lent, 7, procs=1 << 31), "pids.max") == [str(1 << 22)]


def test_without_the_pids_controller_procs_stay_an_rlimit(tree: Tree) -> None:
    (tree.root / "cgroup.controllers").write_text("cpu memory")
    cgroup = made(divide(str(tree.root), OURS, systemd=False, node_id=NODE), 7, mem=1 << 20, procs=5)
    assert cgroup.limits == {"mem": 1 << 20}


def test_a_cgroup_that_does_not_take_its_limit_is_not_used(tree: Tree, lent: Cgroups) -> None:
    tree.refuse = "memory.max"
    assert lent.make(7, {"mem": 1}) is None
    assert tree.groups() == [LEAF]


def test_a_kernel_that_cannot_kill_a_cgroup_is_no_error(tree: Tree, lent: Cgroups) -> None:
    cgroup = made(lent, 7, mem=1)
    tree.refuse = "cgroup.kill"
    cgroup.kill()


@pytest.mark.parametrize(
    ("events", "limits", "remark"),
    [
        ("low 0\noom 2\noom_kill 1\n", {"mem": 2 << 30}, "out of memory: its limit is 2G"),
        ("low 0\noom 2\noom_kill 0\n", {"mem": 2 << 30}, None),
        (
            "oom 0\noom_kill 3\n",
            {"mem": 1},
            "out of memory: the machine, or the group it is part of, had none left",
        ),
        (
            "oom 1\noom_kill 3\n",
            {"files": 1},
            "out of memory: the machine, or the group it is part of, had none left",
        ),
        ("", {"mem": 1}, None),
    ],
)
def test_what_the_oom_killer_did_is_said(
    lent: Cgroups, events: str, limits: dict[str, int], remark: str | None
) -> None:
    cgroup = made(lent, 7, **limits)
    (Path(cgroup.path) / "memory.events").write_text(events)
    assert cgroup.remark() == remark


def test_without_the_memory_controller_nothing_is_said_of_memory(lent: Cgroups) -> None:
    cgroup = made(lent, 7, procs=1)
    (Path(cgroup.path) / "memory.events").unlink()
    assert cgroup.remark() is None


# -- its removal


def test_a_cgroup_goes_with_its_run_and_what_the_run_made_in_it(tree: Tree, lent: Cgroups) -> None:
    cgroup = made(lent, 7, mem=1)
    tree.make(f"{cgroup.path}/own")
    tree.make(f"{cgroup.path}/own/deeper")
    lent.remove(cgroup)
    assert tree.groups() == [LEAF]


def test_a_cgroup_in_which_something_lives_goes_later(tree: Tree, lent: Cgroups) -> None:
    daemon, other = made(lent, 7, mem=1), made(lent, 8, mem=1)
    tree.put(Path(daemon.path), [5000])
    lent.remove(daemon)
    lent.remove(other)
    assert tree.groups() == [LEAF, Path(daemon.path).name]
    tree.put(Path(daemon.path), [])
    lent.remove(made(lent, 9, mem=1))
    assert tree.groups() == [LEAF]


def test_a_removal_tries_few_of_many_that_are_kept(tree: Tree, lent: Cgroups) -> None:
    kept = [made(lent, run_id, mem=1) for run_id in range(60)]
    for cgroup in kept:
        tree.put(Path(cgroup.path), [5000])
        lent.remove(cgroup)
    for cgroup in kept:
        tree.put(Path(cgroup.path), [])
    lent.remove(made(lent, 99, mem=1))
    assert len(tree.groups()) == 1 + 60 - 15
    lent.close()
    assert tree.groups() == [LEAF]


def test_an_empty_cgroup_is_used_again(tree: Tree, lent: Cgroups) -> None:
    first = made(lent, 7)
    events = Path(first.path, "cgroup.events")
    events.write_text("populated 0\nfrozen 0\n")
    lent.remove(first)
    assert made(lent, 8).path == first.path
    events.write_text("populated 1\nfrozen 0\n")
    lent.remove(first)
    second = made(lent, 9)
    assert second.path != first.path
    lent.close()
    assert Path(second.path).name in tree.groups()


@pytest.mark.parametrize("left", ["limit", "oom", "frozen", "inner"])
def test_a_cgroup_with_traces_of_its_run_is_not_used_again(tree: Tree, lent: Cgroups, left: str) -> None:
    cgroup = made(lent, 7, **({"mem": 1 << 20} if left == "limit" else {}))
    Path(cgroup.path, "cgroup.events").write_text(f"populated 0\nfrozen {int(left == 'frozen')}\n")
    if left == "oom":
        Path(cgroup.path, "memory.events").write_text("oom 1\noom_kill 1\n")
    if left == "inner":
        tree.make(f"{cgroup.path}/inner")
    assert not cgroup.is_as_new()


def test_an_end_is_not_over_while_something_lives_in_the_cgroup(lent: Cgroups) -> None:
    """Such as what was forked while we looked: it is killed, and waited for unless it cannot be killed."""
    cgroup = made(lent, 7)
    ending = Escalation(0.0, cgroup)
    Path(cgroup.path, "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not ending.finish()
    assert files(cgroup, "cgroup.kill") == ["1"]
    ending.spared.add((1, 1))
    assert ending.finish()
    ending.spared.clear()
    Path(cgroup.path, "cgroup.events").write_text("populated 0\nfrozen 0\n")
    assert ending.finish()
    assert Escalation(0.0).finish()
