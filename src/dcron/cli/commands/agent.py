"""`agent`: run due tasks on a server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from dcron.cli.asking.options import Db, flag, option, whole_number
from dcron.cli.asking.task_options import named
from dcron.cli.output import console
from dcron.cli.running.context import opened_database
from dcron.config import trust
from dcron.errors import Refused, UsageError
from dcron.values.quantities import parse_duration, parse_need

if TYPE_CHECKING:
    from dcron.cli.running.agent_log import LogFormat
    from dcron.config.channels import Channel
    from dcron.config.files import Config


def command(
    name: Annotated[
        str | None, option("--name", "NAME", "Name of this node [default: the host's name].")
    ] = None,
    slots: Annotated[
        int | None,
        option("--slots", "N", "Most runs at once [default: eight per core].", parser=whole_number(1)),
    ] = None,
    queue: Annotated[
        list[str] | None, option("--queue", "QUEUE", "Run only tasks of this queue; repeatable.")
    ] = None,
    tag: Annotated[
        list[str] | None, option("--tag", "TAG", "Tag that tasks can --require: ssd, zone=eu-1; repeatable.")
    ] = None,
    capacity: Annotated[
        list[str] | None,
        option("--capacity", "gpu=1", "Amount that tasks can --need: gpu=1, mem=8G; repeatable."),
    ] = None,
    lease: Annotated[
        str | None,
        option(
            "--lease", "DURATION", "Time without a heartbeat after which this node is dead [default: 60s]."
        ),
    ] = None,
    grace: Annotated[
        str | None,
        option(
            "--grace", "DURATION", "Time that active runs have to end when the agent stops [default: 30s]."
        ),
    ] = None,
    isolate: Annotated[
        bool, flag("--isolate", "Run commands in a PID namespace that ends with the agent; needs root.")
    ] = False,
    monitor: Annotated[
        str | None,
        option(
            "--monitor",
            "[HOST:]PORT",
            "Serve /metrics, /cluster, /healthz and /readyz there; a port alone listens on 127.0.0.1.",
        ),
    ] = None,
    ping: Annotated[
        str | None,
        option(
            "--ping",
            "URL",
            "Request this URL once a minute while the cluster is healthy: a dead man's switch.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        option("--policy", "FILE", "File that says which tasks run here [default: /etc/dcron/policy.toml]."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None,
        option("--log-format", "text|json", "Format of the log [default: text]."),
    ] = None,
    once: Annotated[bool, flag("--once", "Run what is due now, wait for it to end, and stop.")] = False,
    db: Db = None,
) -> None:
    """Run due tasks on this server until stopped.

    \b
    dcron agent
    dcron agent --name web-1 --slots 8 --tag ssd

    Start one agent on every server that shares the crontab. SIGTERM or Ctrl-C lets active runs end (--grace);
    a second signal stops them at once. Who can write to the crontab can run what the policy of this
    server accepts (dcron policy --help); without one, an agent of root accepts every account but root.
    """
    from dcron.agent.agent import Agent
    from dcron.agent.settings import AgentSettings, default_slots
    from dcron.cli.running.agent_log import log_to_stderr
    from dcron.config.files import load_config, own_node_name, spool_directory
    from dcron.config.policy_file import policy_path
    from dcron.monitoring.address import parse_address

    config = load_config()
    strict = os.geteuid() == trust.ROOT
    if strict and config.distrusted:
        raise Refused(config.distrusted[0])
    for problem in config.unread:
        console.complain(f"warning: {problem}; its [agent] settings are ignored")
    configured = config.agent
    address = monitor or configured.get("monitor")
    settings = AgentSettings(
        name=name or configured.get("name") or own_node_name(),
        spool=spool_directory(config),
        slots=slots or configured.get("slots") or default_slots(),
        lease=named("lease", parse_duration, lease or configured.get("lease", "60s")),
        grace=named("grace", parse_duration, grace or configured.get("grace", "30s")),
        tags=tuple(tag or configured.get("tag", ())),
        queues=tuple(dict.fromkeys(queue or configured.get("queue", ()))),
        isolate=isolate,
        capacity=named("capacity", parse_need, capacity or configured.get("capacity", [])),
        monitor=named("monitor", parse_address, address) if address else None,
        channels=_channels(config, strict=strict),
        ping=ping or configured.get("ping"),
        policy=policy_path(policy, config),
    )
    _require_trust_in_spool(settings.spool, strict=strict)
    log = log_to_stderr(_log_format(log_format or configured.get("log-format", "text")))
    with opened_database(db, strict=strict) as database:
        agent = Agent(database, settings)
        log.node = lambda: agent.session.node.id if agent.session else None
        agent.run(once=once)


def _require_trust_in_spool(spool: Path, *, strict: bool) -> None:
    """Warn if other accounts can change the spool. Raises Refused if `strict`."""
    if problem := trust.problem_with(spool):
        if strict:
            raise Refused(trust.refusal(f"the spool {spool}", problem))
        console.complain(f"warning: {trust.warning(f'the spool {spool}', problem)}")


def _channels(config: "Config", *, strict: bool) -> "tuple[Channel, ...]":
    """Return the channels that can be used; warn about the others."""
    from dcron.config.channels import usable

    good, problems = usable(config.notify, strict=strict)
    for problem in problems:
        console.complain(f"warning: {problem}; this agent does not offer the channel")
    return tuple(good)


def _log_format(text: str) -> "LogFormat":
    from dcron.cli.running.agent_log import FORMATS

    for known in FORMATS:
        if text == known:
            return known
    raise UsageError(f"--log-format {text}: give {' or '.join(FORMATS)}")
