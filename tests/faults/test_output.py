"""Output and results: bounded, whole at both ends, and delivered although an agent died."""

import itertools

from dcron.model import RunState
from dcron.store.runs.output import HEAD_BYTES, TAIL_BYTES
from tests.support.cluster import Cluster, wait_for

CHUNK_SLACK = 128 * 1024


def test_of_a_flood_head_and_tail_are_kept_and_the_middle_is_counted(team: Cluster) -> None:
    team.start_agent("web", lease=30)
    team.wait_until_alive(1)
    flood = 40_000_000
    run = team.crontab.run(
        team.add("flood", "0 0 1 1 *", f"echo BEGIN; head -c {flood} /dev/zero | tr '\\0' x; echo; echo END")
    )
    wait_for(lambda: team.crontab.find_run(run.id).state.is_final, 60, "the flood ends")
    assert team.crontab.find_run(run.id).state is RunState.SUCCEEDED
    chunks, offset = [], 0
    while page := team.crontab.output(run.id, offset):
        chunks += page
        offset = page[-1].byte_offset + 1
    assert chunks[0].data.startswith(b"BEGIN\nxxx")
    # Where one chunk ends and the next begins is the pipe's affair.
    assert b"".join(chunk.data for chunk in chunks[-10:]).endswith(b"x\nEND\n")
    assert chunks[-1].end == flood + len("BEGIN\n\nEND\n")
    kept = sum(len(chunk.data) for chunk in chunks)
    assert TAIL_BYTES - CHUNK_SLACK < kept <= HEAD_BYTES + 2 * TAIL_BYTES + CHUNK_SLACK
    gaps = [after.byte_offset - before.end for before, after in itertools.pairwise(chunks)]
    assert min(gaps) == 0
    assert sum(gaps) == chunks[-1].end - kept > 0


def test_the_next_agent_on_a_host_delivers_what_a_killed_one_left(team: Cluster) -> None:
    dying = team.start_agent("web", lease=60)
    team.wait_until_alive(1)
    run = team.crontab.run(team.add("talk", "0 0 1 1 *", "echo said; exec sleep 300"))
    wait_for(lambda: team.crontab.output(run.id, 0), 5, "it has said something")
    dying.kill()
    team.start_agent("web", lease=60)
    wait_for(
        lambda: team.crontab.find_run(run.id).state is RunState.LOST, 15, "long before the lease is over"
    )
    lost = team.crontab.find_run(run.id)
    assert (lost.reason, lost.signal) == ("stopped because its agent died", 15)
    assert b"".join(chunk.data for chunk in team.crontab.output(run.id, 0)) == b"said\n"
    wait_for(
        lambda: len(list((team.directory / "spool-web").glob("web-*"))) == 1,
        10,
        "only the living one's spool",
    )
