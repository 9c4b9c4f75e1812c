"""Agents of several schemas on one database."""

import time

from sqlalchemy import text

from dcron import migrations
from dcron.migrations import VERSION_TABLE
from dcron.schema.tables import SCHEMA_VERSION
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage

NEXT, PREVIOUS = "9999", migrations.known_versions()[0]


@fault("versions")
def versions(stage: Stage) -> Figures:
    """A newer and an older schema under running agents: all say so, finish what they run, and stop."""
    stage.begin()
    codes = {}
    for version, words in ((NEXT, "made by a newer dcron"), (PREVIOUS, "run `dcron db upgrade`")):
        _pretend(stage, version)
        newcomer = stage.start(f"late-{version}")
        code = newcomer.wait(30)
        said = newcomer.log.read_text().strip()
        stage.require(code not in (0, None), f"an agent that meets {version} ended with {code}")
        stage.require(words in said, f"an agent that meets {version} says only: {said[-200:]}")
        codes[version] = code
        del stage.agents[newcomer.name]
        for agent in stage.living():
            ended = agent.wait(60)
            said = agent.log.read_text()
            stage.require(ended == code, f"a running agent that meets {version} ended with {ended}")
            stage.require(
                "stops when what it runs has ended" in said, f"{agent.name} does not say why it ends"
            )
        _pretend(stage, SCHEMA_VERSION)
        stage.restart_dead()
        time.sleep(stage.seconds / 4)
    stage.expected_exits |= set(codes.values())
    return {f"exit code of an agent that meets {version}": code for version, code in codes.items()}


def _pretend(stage: Stage, version: str) -> None:
    """Let the tables say that they are of this version."""
    with stage.cluster.database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'"))
