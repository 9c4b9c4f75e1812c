"""The files in docs/deploy: units of systemd, a Dockerfile, manifests for Kubernetes."""

import configparser
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from dcron.cli.app import main
from dcron.monitoring.address import parse_address
from tests.support.processes import outcome

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
UNITS = [path.read_text() for path in sorted(DEPLOY.glob("*.service"), reverse=True)]
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
WORKLOADS = [each for each in MANIFESTS if each["kind"] in ("Deployment", "DaemonSet")]
DOCKERFILE = [
    (line.split()[0], line.split(maxsplit=1)[1])
    for line in re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text()).splitlines()
    if line and not line.startswith("#")
]


def parsed(unit: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    return parser


def test_there_is_one_with_root_and_one_without() -> None:
    assert [parsed(unit).has_option("Service", "User") for unit in UNITS] == [False, True]


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_gives_the_agent_time_to_stop_and_a_spool_that_exists(unit: str) -> None:
    service = parsed(unit)["Service"]
    grace = re.search(r"--grace (\d+)s", service["ExecStart"])
    assert grace
    assert int(service["TimeoutStopSec"]) >= int(grace[1]) + 20
    assert service["Environment"] == f"DCRON_SPOOL=/var/lib/{service['StateDirectory']}"
    assert service["KillMode"] == "mixed"
    assert service["Restart"] == "always"


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_hears_how_the_agent_is(unit: str) -> None:
    service = parsed(unit)["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 120, "longer than a loop of the agent may take"


@pytest.mark.parametrize("unit", UNITS)
def test_the_command_of_a_unit_is_one_that_dcron_takes(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, *words = parsed(unit)["Service"]["ExecStart"].split()
    assert main([*words, "--help"]) == 0
    assert "--grace" in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_has_nothing_to_say_against_a_unit(unit: str, tmp_path: Path) -> None:
    known = unit.replace("/usr/local/bin/dcron", "/bin/true").replace(
        "User=cron-runner", f"User={os.getuid()}"
    )
    path = tmp_path / "dcron-agent.service"
    path.write_text(known)
    done = outcome(["systemd-analyze", "verify", "--man=no", str(path)])
    own = [line for line in done.stderr.splitlines() if "dcron-agent.service" in line]
    assert own == []
    path.write_text(known.replace("KillMode=mixed", "KillMood=mixed"))
    broken = outcome(["systemd-analyze", "verify", "--man=no", str(path)])
    assert "KillMood" in broken.stderr, "it sees what is wrong"


def grace_of(words: list[str]) -> int:
    return int(words[words.index("--grace") + 1].removesuffix("s"))


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = workload["spec"]["template"]["spec"]
    return pod


def arguments(workload: dict[str, Any]) -> list[str]:
    return [str(word).replace("$(MACHINE)", "node-1") for word in pod_of(workload)["containers"][0]["args"]]


def test_there_is_a_deployment_a_daemon_set_and_a_budget() -> None:
    assert [each["kind"] for each in MANIFESTS] == ["Deployment", "PodDisruptionBudget", "DaemonSet"]
    deployment, budget, daemons = MANIFESTS
    for each in (deployment, daemons):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert deployment["spec"]["selector"] != daemons["spec"]["selector"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each["kind"])
def test_a_pod_has_grace_probes_and_no_rights(
    workload: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    pod = pod_of(workload)
    [container] = pod["containers"]
    words = arguments(workload)
    assert pod["terminationGracePeriodSeconds"] == grace_of(words) + 30
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "monitor"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "monitor"}
    [port] = container["ports"]
    assert parse_address(words[words.index("--monitor") + 1]) == ("0.0.0.0", port["containerPort"])
    assert pod["securityContext"]["runAsNonRoot"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    variables = {each["name"]: each for each in container["env"]}
    [mount] = container["volumeMounts"]
    assert Path(variables["DCRON_SPOOL"]["value"]).is_relative_to(mount["mountPath"])
    assert {each["name"] for each in pod["volumes"]} == {mount["name"]}
    assert main([*words, "--help"]) == 0
    assert "--monitor" in capsys.readouterr().out


def test_the_image_is_built_of_what_the_package_needs_and_nothing_else() -> None:
    copied = [words.split()[:-1] for word, words in DOCKERFILE if word == "COPY" and "--from" not in words]
    sources = {source for each in copied for source in each}
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in allowed
    assert sources == {line[1:] for line in allowed if line.startswith("!")}
    assert all((DEPLOY.parents[1] / source).exists() for source in sources)


def test_the_image_runs_the_agent_without_rights_as_process_1() -> None:
    last = dict(DOCKERFILE)
    assert {word for word, _ in DOCKERFILE} <= {
        *("FROM", "ARG", "COPY", "RUN", "ENV", "VOLUME", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD")
    }
    assert last["USER"] == "10001:10001"
    assert {pod_of(each)["securityContext"]["runAsUser"] for each in WORKLOADS} == {10001}
    assert json.loads(last["ENTRYPOINT"]) == ["dcron"], "no shell between the runtime and the agent"
    words = json.loads(last["CMD"])
    assert words[0] == "agent"
    assert f":{last['EXPOSE']}" in words[words.index("--monitor") + 1]
    name, spool = last["ENV"].split("=")
    assert (name, Path(spool).parent) == ("DCRON_SPOOL", Path(last["VOLUME"]))
    assert grace_of(words) + 30 == 60
    assert "--stop-timeout 60" in (DEPLOY / "Dockerfile").read_text()
