"""The guard: the warden's parent, which kills the commands if the warden cannot, being killed or frozen.

Of agent, warden and guard, any two may die at once: the third is an ancestor of every command and kills
them. The guard does nothing else, so little can go wrong with it.
"""

import os
import select
import signal
import sys
from typing import NoReturn

from dcron.warden.descendants import kill_descendants
from dcron.warden.escalation import ORPHAN_GRACE
from dcron.warden.linux import IntervalTimer, name_process


def guard(warden: int, alarm: IntervalTimer) -> NoReturn:
    """Wait for the warden's end, and exit like it.

    At the alarm, kill everything below the warden. The warden postpones the alarm with each heartbeat, so
    at the alarm the lease is over and the warden was frozen. A look at all processes takes time on a busy
    machine: once the warden has set the alarm again, it lives, and the guard kills nothing more.
    """
    name_process("dcron-guard")
    gone = os.pidfd_open(warden)
    poll = select.poll()
    poll.register(gone, select.POLLIN)
    poll.register(alarm.fd, select.POLLIN)
    while gone not in dict(poll.poll()):
        if alarm.has_expired():
            kill_descendants(warden, grace=0, go_on=lambda: not alarm.is_set())
    _, status = os.waitpid(warden, 0)
    if status:
        kill_descendants(os.getpid(), ORPHAN_GRACE)
    _leave_like(status)


def _leave_like(status: int) -> NoReturn:
    """Exit as the warden did: the agent, our parent, shall see how."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))
