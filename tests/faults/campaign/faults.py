"""All faults, in the order in which the table tells them."""

from tests.faults.campaign import (
    amounts,
    clocks,
    databases,
    disks,
    failover,
    jobs,
    network,
    pooler,
    processes,
    restores,
    statements,
    versions,
)

FAULTS = {
    each.name: each
    for each in (
        processes.none,
        processes.kill_agents,
        processes.kill_wardens,
        processes.kill_both,
        processes.kill_three,
        processes.freeze_agents,
        processes.freeze_both,
        statements.statements,
        databases.postgres_crash,
        databases.postgres_frozen,
        databases.sqlite_locked,
        databases.damaged_page,
        network.cut,
        network.cut_after_commit,
        network.black_hole,
        network.cut_off,
        pooler.pgbouncer,
        failover.failover_sync,
        failover.failover_async,
        restores.restore,
        clocks.clocks,
        clocks.clock_steps,
        clocks.clock_day,
        clocks.boot_clock,
        disks.disk_full_for_the_database,
        disks.disk_full_for_output,
        jobs.bad_jobs,
        amounts.drain,
        amounts.herd,
        amounts.downtime,
        amounts.poison,
        versions.versions,
    )
}
