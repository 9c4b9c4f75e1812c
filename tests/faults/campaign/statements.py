"""SIGKILL between every two statements of claim, start and finish."""

import subprocess
from collections import Counter
from contextlib import suppress

from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for

PATHS = ("claim", "start", "record")
"""What `dying` knows where to find."""
MOST = 40
"""Statements of one transaction; the longest path has fewer."""
PATIENCE = 6.0
"""Seconds in which a victim that has started reaches each statement it ever reaches."""
VICTIMS = ("web-2", "web-3", "web-4")


@fault("statements")
def statements(stage: Stage) -> Figures:
    """SIGKILL before every statement and commit of claim, start and finish, one after the other."""
    stage.load()
    stage.start("web-1")
    stage.program = ("-m", "tests.faults.campaign.dying")
    deaths: Counter[str] = Counter()
    for path in PATHS:
        for first in range(1, MOST, len(VICTIMS)):
            for number, name in enumerate(VICTIMS, first):
                stage.environments[name] = {"DIE_AT": f"{path}:{number}"}
                stage.start(name)
            died = [_kills_itself(stage, name) for name in VICTIMS]
            deaths[path] += sum(died)
            if not any(died):
                break
    stage.program = ("-m", "dcron")
    return {f"deaths in {path}": deaths[path] for path in PATHS}


def _kills_itself(stage: Stage, name: str) -> bool:
    """Whether it killed itself; else it is ended, for it never gets there."""
    agent = stage.agents[name]
    wait_for(lambda: stage.has_registered(agent) or agent.process.poll() is not None, 60, f"{name} starts")
    with suppress(subprocess.TimeoutExpired):
        agent.wait(PATIENCE)
        return True
    agent.terminate()
    agent.wait(60)
    return False
