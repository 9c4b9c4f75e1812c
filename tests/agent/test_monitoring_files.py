"""The files in docs/monitoring use figures that exist: they are compared with what an agent serves."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import insert

from dcron.agent.monitor import NodeMetrics
from dcron.database import open_database
from dcron.model import RunState
from dcron.monitoring.cluster import ClusterPage
from dcron.schema.tables import maintenance_jobs
from dcron.services.fleet import Fleet
from dcron.store.alerts import notifications
from tests.agent.test_monitor import agent_of
from tests.support.node import StandingClock, World
from tests.support.processes import outcome
from tests.support.scraping import families_of, samples_of

FILES = Path(__file__).parents[2] / "docs" / "monitoring"
RULES = yaml.safe_load((FILES / "alerts.yml").read_text())
DATA = Path(__file__).parents[1] / "data"
DASHBOARD = json.loads((FILES / "grafana.json").read_text())
PROMTOOL = shutil.which("promtool")
_FIGURE = re.compile(r"\b(?:dcron|process)_[a-z_]+")
_LABELS = re.compile(r"\b(?:by|without) \(([a-z_, ]*)\)|\{([a-z_]+)=")
ON_POSTGRES = {"dcron_oldest_transaction_seconds"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def rule_expressions() -> Iterator[str]:
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def panel_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


@pytest.fixture
def pages(database_url: str) -> Iterator[list[str]]:
    """The two pages of an agent that has done a bit of everything."""
    clock = StandingClock()
    database = open_database(database_url, clock=clock)
    world = World(database, clock)
    Fleet(world.crontab).set_queue("mail", 4)
    for name in ("good", "bad", "active"):
        world.add(name, queue="mail")
    node = world.node()
    clock.forward(minutes=1)
    node.dispatch()
    for run in world.runs(RunState.RUNNING):
        if run.task != "active":
            node.end(run.id)
    node.recorder.step()
    node.heartbeat.step()
    with database.write() as connection:
        job = {"name": "sweep", "due_at": clock.now, "ran_at": clock.now, "seconds": 1.0}
        connection.execute(insert(maintenance_jobs).values(job | {"position": {}, "done": {}}))
        notifications.add(connection, notifications.for_channels(["ops"], "opened", clock.now))
    cluster = ClusterPage(database)
    yield [page(OPENMETRICS).body.decode() for page in (NodeMetrics(agent_of(node)).page, cluster.page)]
    cluster.close()
    database.close()


def test_every_rule_and_panel_uses_figures_that_are_served(pages: list[str], database_url: str) -> None:
    families = [family for page in pages for family in families_of(page)]
    names = {sample.name for family in families for sample in family.samples}
    labels = {label for family in families for sample in family.samples for label in sample.labels}
    if database_url.startswith("sqlite"):
        names |= ON_POSTGRES
    for expression in (*rule_expressions(), *panel_expressions()):
        used = set(_FIGURE.findall(expression))
        assert used, expression
        assert used <= names, expression
        for several, single in _LABELS.findall(expression):
            named = {label.strip() for label in (several or single).split(",")}
            assert named <= labels | {"instance"}, expression


def test_every_series_is_documented(pages: list[str]) -> None:
    page = (FILES.parent / "operations.md").read_text()
    families = {family.name for text in pages for family in families_of(text)}
    served = {name for name in families if not name.startswith("process_")}
    assert sorted(name for name in served if name not in page) == []


def test_rules_have_names_severities_and_advice() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["alert"].startswith("Dcron")
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def promtool(*words: str, stdin: str = "") -> None:
    assert PROMTOOL
    done = outcome([PROMTOOL, *words], input=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
def test_prometheus_accepts_the_rules() -> None:
    promtool("check", "rules", str(FILES / "alerts.yml"))


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
def test_rules_fire_when_they_should(tmp_path: Path) -> None:
    cases: dict[str, Any] = yaml.safe_load((DATA / "alerts_test.yml").read_text())
    test_file = tmp_path / "alerts_test.yml"
    test_file.write_text(yaml.safe_dump(cases | {"rule_files": [str(FILES / "alerts.yml")]}))
    promtool("test", "rules", str(test_file))


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
def test_prometheus_accepts_the_pages(pages: list[str], world: World) -> None:
    node = world.node()
    cluster = ClusterPage(world.database)
    for page in (NodeMetrics(agent_of(node)).page, cluster.page):
        text = page("").body.decode()
        assert samples_of(text)
        promtool("check", "metrics", stdin=text)
    cluster.close()
