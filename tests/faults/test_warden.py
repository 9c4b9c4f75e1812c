"""Commands under a real warden: what they are given, what they write, how they end."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dcron.warden.client import Finished, Job, OutputChunk, Started, Warden
from tests.support.harness import ENV, Harness
from tests.support.patience import PATIENCE, until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def parent_of(pid: int) -> int:
    """The guard of a warden."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[1])


def states_of_children(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/stat").read_text().rsplit(") ", 1)[1][0] for child in children]


# -- what a command writes, and how it ends


def test_both_streams_and_the_exit_code_are_reported(harness: Harness) -> None:
    run = harness.shell("echo to out; echo to err >&2; exit 3")
    result = harness.result(run)
    assert (result.exit_code, result.signal, result.reason, result.message) == (3, None, None, None)
    assert result.total_bytes == 14
    assert harness.output(run, "out") == b"to out\n"
    assert harness.output(run, "err") == b"to err\n"


def test_times_usage_and_names_are_in_the_result(harness: Harness) -> None:
    before = time.time()
    result = harness.result(
        harness.start(sys.executable, "-c", "x = bytearray(50_000_000); sum(range(3_000_000))")
    )
    assert result.node_id == harness.warden.spool.node_id
    assert result.started_at is not None
    assert before - 0.001 <= result.started_at < result.finished_at <= time.time() + 0.001
    assert 0.01 < result.cpu < 5
    assert result.max_rss is not None
    assert 50_000_000 < result.max_rss < 100_000_000


def test_a_command_smaller_than_the_warden_has_no_known_memory(harness: Harness) -> None:
    assert harness.result(harness.start("true")).max_rss is None


def test_a_signal_is_reported_as_a_signal(harness: Harness) -> None:
    result = harness.result(harness.shell("kill -SEGV $$"))
    assert (result.exit_code, result.signal, result.reason) == (None, signal.SIGSEGV, None)


def test_bytes_that_are_not_utf_8_survive(harness: Harness) -> None:
    everything = bytes(range(256)) * 3
    run = harness.start("cat", stdin=everything)
    assert harness.output(run) == everything


def test_arguments_and_environment_that_are_not_utf_8_survive(harness: Harness) -> None:
    odd = os.fsdecode(b"caf\xe9")
    run = harness.start("sh", "-c", 'printf "%s %s" "$1" "$ODD"', "sh", odd, env={**ENV, "ODD": odd})
    assert harness.output(run) == b"caf\xe9 caf\xe9"


def test_the_environment_is_what_was_given_and_the_run_id(harness: Harness) -> None:
    run = harness.start("/usr/bin/env", env={"ONLY": "this"})
    assert sorted(harness.output(run).split()) == [b"DCRON_RUN_ID=%d" % run, b"ONLY=this"]


def test_a_command_inherits_three_descriptors_and_no_signal_setting(harness: Harness) -> None:
    run = harness.shell("ls /proc/self/fd | wc -l; cat /proc/self/status")
    count, *status = harness.output(run).decode().splitlines()
    assert int(count) == 4  # the fourth is the directory that ls reads
    # 32 and 33 are the C library's own: a process started by `make` has one of them ignored, beyond repair.
    reserved = 1 << 31 | 1 << 32
    masks = {
        name: int(mask, 16) & ~reserved
        for name, mask in (line.split(":") for line in status if line[:3] == "Sig" and "/" not in line)
    }
    assert masks["SigBlk"] == masks["SigIgn"] == masks["SigCgt"] == 0


def test_a_command_leads_a_session_of_its_own(harness: Harness) -> None:
    run = harness.shell("cat /proc/$$/stat; true")
    pid, _, _, _, group, session = harness.output(run).split()[:6]
    assert pid == group == session


def test_the_directory_and_the_umask_are_as_asked(harness: Harness, tmp_path: Path) -> None:
    run = harness.shell("pwd; umask; touch made", cwd=str(tmp_path), umask=0o027)
    assert harness.output(run).decode().split() == [str(tmp_path), "0027"]
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
    assert harness.output(harness.shell("pwd; umask")).decode().split() == ["/", "0022"]


def test_a_closed_stdout_is_not_the_end(harness: Harness) -> None:
    run = harness.shell("echo before; exec >&- 2>&-; sleep 0.3; exit 4")
    assert harness.result(run).exit_code == 4
    assert harness.output(run) == b"before\n"


# -- standard input


def test_without_input_a_command_reads_nothing(harness: Harness) -> None:
    assert harness.output(harness.shell("wc -c")) == b"0\n"


def test_big_input_arrives_whole(harness: Harness) -> None:
    data = os.urandom(1 << 20) * 5
    run = harness.start("sha256sum", stdin=data)
    expected = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True).stdout
    assert harness.output(run) == expected


def test_input_that_is_not_read_blocks_no_process(harness: Harness) -> None:
    slow = harness.shell("sleep 60", stdin=b"x" * 5_000_000)
    harness.pid(slow)
    assert harness.result(harness.start("true", stdin=b"x" * 5_000_000)).exit_code == 0


def test_a_command_of_an_account_without_a_home_runs_in_the_root_directory(harness: Harness) -> None:
    for home in ("/nonexistent", "/etc/passwd/home"):
        run = harness.shell("pwd", cwd=home, at_home=True)
        assert harness.result(run).exit_code == 0
        warning = f"dcron: warning: there is no home directory {home!r}; the command runs in /\n"
        assert (harness.output(run), harness.output(run, "err").decode()) == (b"/\n", warning)


# -- what cannot be started


@pytest.mark.parametrize(
    ("argv", "job", "code", "message"),
    [
        (("no-such-program",), {}, 127, "there is no program 'no-such-program'"),
        (("/no/such/program",), {}, 127, "there is no program '/no/such/program'"),
        (("/etc/passwd",), {}, 126, "cannot start '/etc/passwd': Permission denied"),
        (
            ("true",),
            {"cwd": "/no/such"},
            126,
            "cannot enter the directory '/no/such': No such file or directory",
        ),
        (("true",), {"cwd": "/etc/passwd"}, 126, "cannot enter the directory '/etc/passwd': Not a directory"),
        (("true",), {"user": "no-such-user"}, 126, "there is no user 'no-such-user'"),
        (("true",), {"env": {"A=B": "x"}}, 126, "cannot start 'true': illegal environment variable name"),
        (("echo", "a\0b"), {}, 126, "cannot start 'echo': embedded null byte"),
        (("echo", "x" * 200_000), {}, 126, "cannot start 'echo': arguments or environment are too long"),
        ((), {}, 126, "there is no command"),
        (("true",), {"stdin": b"x" * (13 << 20)}, 126, "cannot be started: 18,"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, (tuple, dict)) else "",
)
def test_a_failure_to_start_is_a_result(
    harness: Harness, argv: tuple[str, ...], job: dict[str, Any], code: int, message: str
) -> None:
    result = harness.result(harness.start(*argv, **job))
    assert (result.exit_code, result.reason, result.started_at) == (code, "spawn failed", None)
    assert result.message is not None
    assert result.message.startswith(message)
    assert harness.result(harness.start("true")).exit_code == 0


def test_a_missing_interpreter_is_named_as_that(harness: Harness, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    result = harness.result(harness.start(str(script)))
    assert (result.exit_code, result.message) == (127, f"the interpreter of '{script}' does not exist")


def test_more_commands_than_descriptors_are_refused_and_the_others_live(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    pid = harness.warden.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
    runs = [harness.start("sleep", "300") for _ in range(30)]
    refused = harness.result(runs[-1])
    assert (refused.exit_code, refused.reason) == (126, "spawn failed")
    assert refused.message == "too many commands at a time for 64 open files (ulimit -n)"
    harness.warden.kill(runs)
    harness.hear(lambda: len(harness.results) == 30)
    assert {each.reason for each in harness.results.values()} == {"cancelled", "spawn failed"}
    assert states_of_children(pid) == []
    harness.close()


# -- users


@needs_root
def test_a_user_is_user_group_and_groups_together(tmp_path: Path) -> None:
    expected = subprocess.run(["id", "nobody"], capture_output=True, check=True).stdout
    groups = os.getgroups()
    os.setgroups([0, 1, 2])  # as a root that has logged in has more than its own
    try:
        with closing(Harness(tmp_path)) as harness:
            assert b"groups=0(root),1(daemon)" in harness.output(harness.start("id"))
            assert harness.output(harness.start("id", user="nobody")) == expected
            assert b"groups=0(root)\n" in harness.output(harness.start("id", user="root"))
    finally:
        os.setgroups(groups)


@needs_root
def test_a_user_may_open_the_output_by_its_path(harness: Harness) -> None:
    run = harness.shell("echo one >/dev/stdout; echo two >/dev/stderr", user="nobody")
    assert (harness.output(run), harness.output(run, "err")) == (b"one\n", b"two\n")


@needs_root
def test_a_directory_is_entered_with_the_rights_of_the_user(harness: Harness, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    result = harness.result(harness.start("true", user="nobody", cwd=str(closed)))
    assert (result.exit_code, result.message) == (
        126,
        f"cannot enter the directory '{closed}': Permission denied",
    )
    assert harness.result(harness.start("true", cwd=str(closed))).exit_code == 0
    assert harness.output(harness.shell("pwd", user="nobody", cwd="/usr")) == b"/usr\n"


@needs_root
def test_a_user_can_be_given_by_number(harness: Harness) -> None:
    assert harness.output(harness.start("id", "-un", user="65534")) == b"nobody\n"


@needs_root
def test_another_user_needs_root(tmp_path: Path) -> None:
    """An agent without root refuses other users, and takes its own for what it is."""
    script = """
import os
from dcron.warden.accounts import AccountError, identity_of
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
assert identity_of("nobody") is None
try:
    identity_of("root")
except AccountError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "only an agent that runs as root can start commands as 'root'\n"


# -- output


def test_output_is_announced_while_the_command_runs(harness: Harness) -> None:
    run = harness.shell("echo early; sleep 1000")
    harness.hear(lambda: OutputChunk(run) in harness.events)
    assert run not in harness.results
    with harness.warden.journal(run) as journal:
        (frame,) = journal.read()
        assert (frame.data, frame.stream, frame.offset, journal.read()) == (b"early\n", "out", 0, [])
        harness.warden.kill([run])
        harness.result(run)
        assert journal.result is None
        assert journal.read() == []
        assert journal.result == harness.results[run]


def test_a_run_without_output_costs_no_announcement_and_one_file(harness: Harness) -> None:
    run = harness.start("true")
    harness.result(run)
    assert [type(event) for event in harness.events] == [Started, Finished]
    assert names(harness.warden.spool.path) == [f"{run}.0", "dcron.lock"]
    harness.warden.forget(run)
    assert names(harness.warden.spool.path) == ["dcron.lock"]


def test_a_journal_is_private(harness: Harness) -> None:
    run = harness.start("true", umask=0)
    harness.result(run)
    directory = harness.warden.spool.path
    modes = [
        path.stat().st_mode & 0o777
        for path in (directory.parent, directory, directory / f"{run}.0", directory / "dcron.lock")
    ]
    assert modes == [0o700, 0o700, 0o600, 0o600]


RECORD = 64
FLOOD = """
import sys
for block in range({blocks}):
    sys.stdout.buffer.write(b"".join(b"%063d\\n" % (block * 4096 + i) for i in range(4096)))
"""


def test_a_flood_stays_bounded_and_its_head_and_tail_are_right(harness: Harness) -> None:
    blocks = 1200  # of 256 KiB: 300 MiB
    run = harness.start(sys.executable, "-c", FLOOD.format(blocks=blocks))
    directory = harness.warden.spool.path
    largest = 0

    def done() -> bool:
        nonlocal largest
        sizes = [path.stat().st_size for path in directory.iterdir() if path.exists()]
        largest = max(largest, sum(sizes))
        harness.listen(0.01)
        return run in harness.results

    until(done, 90)
    result = harness.results[run]
    assert result.total_bytes == blocks * 4096 * RECORD
    assert 10 << 20 < largest <= (15 << 20) + 4096

    frames = harness.frames(run)
    gaps = [
        (before.offset + len(before.data), after.offset)
        for before, after in pairwise(frames)
        if before.offset + len(before.data) != after.offset
    ]
    ((gap_begin, gap_end),) = gaps
    assert gap_end - gap_begin > 280 << 20
    head = b"".join(frame.data for frame in frames if frame.offset < gap_begin)
    tail = b"".join(frame.data for frame in frames if frame.offset >= gap_end)
    assert 4 << 20 < len(head) <= 5 << 20
    assert 5 << 20 < len(tail) <= 10 << 20
    for data, offset in ((head, 0), (tail, gap_end)):
        skip = -offset % RECORD
        first = (offset + skip) // RECORD
        lines = data[skip:].splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        assert whole == [b"%063d\n" % number for number in range(first, first + len(whole))]
        assert len(lines) - len(whole) <= 1

    harness.warden.forget(run)
    assert names(directory) == ["dcron.lock"]


def test_a_line_that_never_ends_is_output_like_any_other(harness: Harness) -> None:
    size = 12 << 20
    run = harness.shell(f"head -c {size} /dev/zero | tr '\\0' x")
    assert harness.output(run) == b"x" * size


def test_a_reader_that_was_overtaken_goes_on_behind_the_gap(tmp_path: Path) -> None:
    harness = Harness(tmp_path, head=200_000, tail=200_000)
    run = harness.shell("echo first; read go; head -c 5000000 /dev/zero", stdin=None)
    result = harness.result(run)
    with harness.warden.journal(run) as journal:
        frames = []
        while more := journal.read(70_000):
            frames += more
        assert journal.result == result
    assert frames[0].data.startswith(b"first\n")
    assert frames[-1].offset + len(frames[-1].data) == result.total_bytes == 5_000_006
    assert sum(len(frame.data) for frame in frames) < 700_000
    harness.close()


def test_background_processes_delay_a_result_a_second_and_live_on(harness: Harness, tmp_path: Path) -> None:
    begun = time.monotonic()
    run = harness.shell(
        "(sleep 4; echo late && sleep 0.1 && echo later && touch survived; sleep 300) & echo $!",
        cwd=str(tmp_path),
    )
    pid = int(harness.output(run))
    assert time.monotonic() - begun > 0.9
    assert harness.results[run].total_bytes == len(f"{pid}\n")
    until((tmp_path / "survived").exists)  # writing without a reader has not killed it
    assert Path(f"/proc/{pid}").exists()


def test_background_output_is_drained_for_ever(harness: Harness, tmp_path: Path) -> None:
    """A pipe without a reader would stop the process at 64 KiB, far before its end."""
    harness.result(
        harness.shell(
            "(until test -e go; do sleep 0.05; done; head -c 3000000 /dev/zero && touch survived) &",
            cwd=str(tmp_path),
        )
    )
    before = descriptors(harness.warden.pid)
    (tmp_path / "go").touch()
    until((tmp_path / "survived").exists)
    until(lambda: descriptors(harness.warden.pid) == before - 2)  # and its end is noticed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory whose spool lies on a disk of 1 MiB."""
    mount = tmp_path / "spool"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


@needs_root
def test_a_full_disk_loses_output_but_neither_the_command_nor_the_result(small_disk: Path) -> None:
    with closing(Harness(small_disk)) as harness:
        run = harness.shell("head -c 5000000 /dev/zero; exit 7")
        result = harness.result(run)
        assert (result.exit_code, result.total_bytes) == (7, 5_000_000)
        assert result.message is not None
        assert result.message.startswith("output was lost: ")
        with harness.warden.journal(run) as journal:
            kept = sum(len(frame.data) for frame in journal.read(5_000_000))
        assert 500_000 < kept < 1 << 20

        full = harness.warden.spool.path / "full"
        with pytest.raises(OSError, match="No space"):
            full.write_bytes(b"x" * (1 << 20))
        unwritten = harness.result(harness.shell("echo lost"))
        assert (unwritten.exit_code, unwritten.total_bytes) == (0, 5)
        assert unwritten.message is not None
        assert unwritten.message.endswith("the result could not be written to the spool")

        full.unlink()
        harness.warden.forget(run)
        assert harness.output(harness.shell("echo kept")) == b"kept\n"


# -- the warden itself


def test_a_thousand_commands_leave_no_descriptor_and_no_zombie(harness: Harness) -> None:
    harness.result(harness.shell("echo warm; echo up >&2"))
    pid = harness.warden.pid
    before = descriptors(pid)
    ours = descriptors(os.getpid())
    for _ in range(10):
        for _ in range(100):
            last = harness.shell("echo x; (true &)")
        harness.result(last)
        harness.hear(lambda: len(harness.results) == harness.last)
        for run in range(last - 99, last + 1):
            harness.warden.forget(run)
    assert {result.exit_code for result in harness.results.values()} == {0}
    until(lambda: states_of_children(pid) == [])
    until(lambda: descriptors(pid) == before)
    assert descriptors(os.getpid()) == ours


def test_orphans_that_end_are_reaped(harness: Harness) -> None:
    run = harness.shell("(setsid sh -c 'exit 0' &); (sleep 0.2; exit 1) >/dev/null 2>&1 & exit 0")
    harness.result(run)
    until(lambda: states_of_children(harness.warden.pid) == [])


def test_an_agent_that_does_not_listen_blocks_nothing(harness: Harness, tmp_path: Path) -> None:
    """Far more is said than the socket holds, and nothing of it is lost or waited for."""
    jobs = [Job(run_id=run_id, argv=("/no/such/program" + "x" * 400,), env=ENV) for run_id in range(1, 3001)]
    harness.warden.start(jobs)
    harness.warden.start([Job(run_id=3001, argv=("touch", "done"), env=ENV, cwd=str(tmp_path))])
    until((tmp_path / "done").exists)
    harness.hear(lambda: len(harness.results) == 3001)


def test_news_does_not_pile_up_for_an_agent_that_does_not_listen(harness: Harness, tmp_path: Path) -> None:
    """The output begins when the socket is full of results that were not read."""
    await_results = f"until [ -e {tmp_path}/full ]; do sleep 0.02; done"
    run = harness.shell(f"{await_results}; for i in $(seq 60); do echo; sleep 0.02; done; sleep 300")
    harness.pid(run)
    for run_id in range(1000, 2500):
        harness.start("/no" + "x" * 400, run_id=run_id)
    harness.start("touch", str(tmp_path / "full"), run_id=2500)
    with harness.warden.journal(run) as journal:
        until(lambda: any(frame.offset + len(frame.data) == 60 for frame in journal.read()))
    harness.hear(lambda: len(harness.results) == 1501)
    harness.hear(lambda: OutputChunk(run) in harness.events)
    assert harness.events.count(OutputChunk(run)) < 3


def test_a_waiting_listener_can_be_woken(harness: Harness) -> None:
    woken = threading.Timer(0.1, harness.warden.wake)
    woken.start()
    begun = time.monotonic()
    assert harness.warden.events(PATIENCE) == []
    assert time.monotonic() - begun < PATIENCE / 2
    woken.join()


def test_signals_of_a_service_manager_do_not_end_the_warden(harness: Harness) -> None:
    guard = parent_of(harness.warden.pid)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        for pid in (harness.warden.pid, guard):
            os.kill(pid, number)
    for run_id in range(1, 11):  # the first might be over before the loss of a guard is seen
        assert harness.result(harness.start("true", run_id=run_id)).exit_code == 0
    assert parent_of(harness.warden.pid) == guard


def test_an_idle_warden_does_nothing(harness: Harness) -> None:
    harness.pid(harness.start("sleep", "300"))

    def switches() -> int:
        status = Path(f"/proc/{harness.warden.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)

    def is_idle() -> bool:
        before = switches()
        time.sleep(0.5)  # the subject is that nothing happens in a while
        return switches() == before

    until(is_idle)


def test_the_warden_stays_small_and_knows_only_the_library(harness: Harness) -> None:
    status = Path(f"/proc/{harness.warden.pid}/status").read_text()
    assert "Name:\tdcron-warden\n" in status
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 30_000  # KiB
    maps = Path(f"/proc/{harness.warden.pid}/maps").read_text()
    assert "site-packages" not in maps


def test_the_package_imports_nothing_else_of_dcron() -> None:
    script = "import sys, dcron.warden.main, dcron.warden.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("dcron.")}
    assert {name for name in ours if not name.startswith("dcron.warden")} <= {"dcron._version"}
    assert "dcron.warden.process" in ours


def test_a_warden_that_cannot_come_up_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match=r"the warden did not start \(exit status 1\)"):
        Warden(tmp_path / "spool", "web-1-0000000a")
    assert names(tmp_path / "spool") == []
