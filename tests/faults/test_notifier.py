"""Channels of real agents: a sender that hangs disturbs nothing, nor does it keep an agent from stopping."""

from pathlib import Path

from sqlalchemy import Row, select

from dcron.schema.tables import nodes, notifications
from dcron.services.channels import Channels
from dcron.store.alerts import notifications as outbox
from tests.support.cluster import AgentProcess, Cluster, wait_for

SHORT_LIMIT = (
    "from dcron.agent.notifier import Notifier\n"
    "from dcron.__main__ import main\n"
    "Notifier.__init__.__kwdefaults__['limit'] = {0}\n"
    "main()\n"
)
LEASE = 4


def start(team: Cluster, command: str, limit: float = 30.0, **others: str) -> AgentProcess:
    """Start an agent with the channel `ops`, which runs this command, and with `others`."""
    config = team.directory / "config.toml"
    commands = {"ops": command, **others}
    tables = (f"[notify.{name}]\nkind = 'command'\ncommand = '{each}'\n" for name, each in commands.items())
    config.write_text("".join(tables))
    program = ("-c", SHORT_LIMIT.format(limit))
    environment = {"DCRON_CONFIG": str(config)}
    return team.start_agent("web-1", lease=LEASE, program=program, environment=environment)


def renewals(team: Cluster) -> int:
    """Return how often the node has renewed its lease."""
    with team.database.read() as connection:
        return int(connection.execute(select(nodes.c.renewals)).scalar_one())


def row(team: Cluster, notification_id: int) -> Row[tuple[object, ...]]:
    """Return a notification."""
    with team.database.read() as connection:
        return connection.execute(select(notifications).where(notifications.c.id == notification_id)).one()


def send_test(team: Cluster, channel: str = "ops") -> int:
    """Let the agent send a test message; return its notification."""
    wait_for(lambda: any(channel in node.channels for node in team.alive()), 60, "the agent has the channel")
    return Channels(team.crontab).request_test(channel)


def test_a_sender_that_hangs_is_killed_while_the_heartbeat_goes_on(team: Cluster, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    agent = start(team, f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 3600", limit=5.0)
    test = send_test(team)
    wait_for(pid.exists, 60, "the command runs")
    sender, before = Path("/proc") / pid.read_text().strip(), renewals(team)
    wait_for(lambda: renewals(team) >= before + 3 or row(team, test).error, 60, "the heartbeat goes on")
    assert row(team, test).error is None, "it goes on before the sender is killed"
    wait_for(lambda: row(team, test).error, 60, "the limit is over")
    assert row(team, test).error == "no answer within 5 seconds"
    wait_for(lambda: not sender.exists(), 60, "the command is killed")
    assert team.alive()[0].died_at is None
    agent.terminate()
    assert agent.wait(60) == 0


def test_a_sender_that_hangs_delays_no_other_channel_and_no_end(team: Cluster, tmp_path: Path) -> None:
    begun, received = tmp_path / "begun", tmp_path / "received"
    agent = start(team, f"touch {begun}; sleep 3600", limit=45.0, pager=f"touch {received}")
    hanging = send_test(team)
    wait_for(begun.exists, 60, "the first command runs")
    other = send_test(team, "pager")
    wait_for(lambda: row(team, other).sent_at, 60, "the other channel sends")
    assert received.exists()
    assert row(team, hanging).error is None, "it did so before the first one was killed"
    agent.terminate()
    assert agent.wait(60) == 0
    found = row(team, hanging)
    assert (found.sent_at, found.error) == (None, "the sender was ended"), "another node sends it again"


def test_what_an_agent_could_not_record_is_sent_again_with_its_id(team: Cluster, tmp_path: Path) -> None:
    received = tmp_path / "received"
    received.mkdir()
    first = start(team, f"touch {received}/$DCRON_MESSAGE_ID; sleep 3600", limit=45.0)
    test = send_test(team)
    wait_for(lambda: list(received.iterdir()), 60, "the message is sent")
    first.kill()
    with team.database.write() as connection:  # its hold is over
        change = notifications.update().values(held_until=team.database.now(connection))
        connection.execute(change)
    start(team, f"echo again > {received}/$DCRON_MESSAGE_ID")
    wait_for(lambda: row(team, test).sent_at, 60, "another node sends it")
    assert [path.read_text() for path in received.iterdir()] == ["again\n"]
    assert row(team, test).kind == outbox.OUTPUT
