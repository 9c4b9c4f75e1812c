"""Messages are sent by a child process: by a command, by mail, by HTTP, and by apprise."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dcron.notifying import Delivery, Message, Outcome, Result, deliver
from tests.support.patience import until

MESSAGE = Message(
    "7-9.abc", "[dcron] backup FAILING: Größe", "It failed.\nÄöü\n", {"notifications": [{"id": 7}]}
)
SECRET = "s3cr3t-token"


def script(path: Path, text: str) -> str:
    """Write an executable script; return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


# Commands


def test_a_command_gets_the_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCRON_DB", f"postgresql://u:{SECRET}@h/d")
    monkeypatch.setenv("OPS_URL", SECRET)
    command = f"cat > {tmp_path}/text; env > {tmp_path}/env"
    assert deliver("ops", "command", {"command": command}, [MESSAGE]) == [Result(Outcome.SENT)]
    assert (tmp_path / "text").read_text() == MESSAGE.text
    env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert (env["DCRON_CHANNEL"], env["DCRON_MESSAGE_ID"]) == ("ops", "7-9.abc")
    assert env["DCRON_SUBJECT"] == MESSAGE.subject
    assert not env.keys() & {"DCRON_DB", "OPS_URL"}


def test_a_command_may_get_json(tmp_path: Path) -> None:
    options = {"command": ["/bin/sh", "-c", f"cat > {tmp_path}/json"], "format": "json"}
    assert deliver("ops", "command", options, [MESSAGE]) == [Result(Outcome.SENT)]
    assert json.loads((tmp_path / "json").read_text()) == {
        "id": "7-9.abc",
        "channel": "ops",
        "subject": MESSAGE.subject,
        "text": MESSAGE.text,
        "notifications": [{"id": 7}],
    }


@pytest.mark.parametrize(
    ("command", "error", "detail"),
    [
        ("echo no pager >&2; exit 3", "the command exited with 3", "no pager"),
        ("kill -9 $$", "the command was ended by signal 9", None),
        (["/missing/program"], "the command cannot be started: No such file or directory", None),
        ("exec 2>/dev/null; missing-program", "the command exited with 127 (it was not found)", None),
    ],
)
def test_a_command_that_fails_is_a_failure(command: Any, error: str, detail: str | None) -> None:
    failed = [Result(Outcome.FAILED, error, detail)]
    assert deliver("ops", "command", {"command": command}, [MESSAGE]) == failed


def test_each_message_has_a_result() -> None:
    messages = [Message(f"{number}", f"{number}", "text") for number in range(3)]
    results = deliver("ops", "command", {"command": '[ "$DCRON_SUBJECT" != 1 ]'}, messages)
    assert [result.outcome for result in results] == [Outcome.SENT, Outcome.FAILED, Outcome.SENT]


def test_a_large_message_arrives_whole(tmp_path: Path) -> None:
    large = Message("1", "large", "x" * 1_000_000)
    assert (
        deliver("ops", "command", {"command": f"wc -c > {tmp_path}/size"}, [large])[0].outcome is Outcome.SENT
    )
    assert int((tmp_path / "size").read_text()) == 1_000_000


def gone(pid: int) -> bool:
    """Return whether the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_sender_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    command = f"sleep 3600 & echo $! > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid; sleep 3600"
    messages = [MESSAGE, Message("10", "", "")]
    delivery = Delivery("ops", "command", {"command": command}, messages, limit=0.4)
    unknown = Result(Outcome.UNKNOWN, "no answer within 0.4 seconds")
    assert delivery.results() == [unknown, unknown]
    assert gone(delivery.pid)
    if (tmp_path / "pid").exists():  # on a slow machine the limit may come first
        until(lambda: gone(int((tmp_path / "pid").read_text())))


def test_an_agent_that_stops_need_not_wait(tmp_path: Path) -> None:
    command = f"touch {tmp_path}/begun; sleep 3600"
    delivery = Delivery("ops", "command", {"command": command}, [MESSAGE], limit=3600)
    results = delivery.results(should_end=(tmp_path / "begun").exists)
    assert results == [Result(Outcome.UNKNOWN, "the sender was ended")]
    assert gone(delivery.pid)


def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    program = (
        "from dcron.notifying import Delivery, Message\n"
        f"command = 'echo $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid; sleep 3600'\n"
        "Delivery('ops', 'command', {'command': command}, [Message('1', '', '')], 3600).results()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    until((tmp_path / "pid").exists)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: gone(int((tmp_path / "pid").read_text())))


# Mail


def sent_mail(path: Path) -> Any:
    """Return the mail that the script has received."""
    return message_from_bytes(path.read_bytes(), policy=default)


def test_mail_goes_to_sendmail(tmp_path: Path) -> None:
    sendmail = script(tmp_path / "sendmail", f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/mail')
    options = {"to": ["ops@example.org", "ann@example.org"], "sendmail": sendmail}
    assert deliver("ops", "mail", options, [MESSAGE]) == [Result(Outcome.SENT)]
    assert (tmp_path / "args").read_text() == "-oi -t\n"
    raw, mail = (tmp_path / "mail").read_bytes(), sent_mail(tmp_path / "mail")
    assert b"\r" not in raw
    assert raw.split(b"\n\n")[0].isascii(), "headers are encoded"
    assert (mail["To"], mail["Subject"]) == ("ops@example.org, ann@example.org", MESSAGE.subject)
    assert mail["From"].startswith("dcron <")
    assert (mail["Message-ID"], mail["Auto-Submitted"]) == ("<7-9.abc@dcron>", "auto-generated")
    assert mail["Date"].datetime.tzinfo
    assert mail.get_content() == MESSAGE.text
    assert mail["Content-Transfer-Encoding"] == "8bit"


def test_a_message_may_have_addresses_and_headers_of_its_own(tmp_path: Path) -> None:
    sendmail = script(tmp_path / "sendmail", f"cat > {tmp_path}/mail")
    headers = (("From", "root (Cron Daemon)"), ("X-Cron-Env", "<A=1>"), ("X-Cron-Env", "<B=2>"))
    message = Message("1", "Cron\n<root@h> x", "plain\n", to=("bob@example.org",), headers=headers)
    options = {"to": "ops@example.org", "from": "a@b", "sendmail": sendmail}
    assert deliver("ops", "mail", options, [message]) == [Result(Outcome.SENT)]
    mail = sent_mail(tmp_path / "mail")
    assert (mail["To"], mail["Subject"]) == ("bob@example.org", "Cron <root@h> x"), "one line"
    assert mail.get_all("X-Cron-Env") == ["<A=1>", "<B=2>"]
    assert b"From: root (Cron Daemon)\n" in (tmp_path / "mail").read_bytes()


def test_mail_needs_an_address_and_a_sendmail_that_works(tmp_path: Path) -> None:
    options: dict[str, object] = {"sendmail": script(tmp_path / "sendmail", "exit 75")}
    (result,) = deliver("ops", "mail", options, [MESSAGE])
    assert result.error == "the channel has no address: give `to` in its table of the config file"
    (result,) = deliver("ops", "mail", options | {"to": "a@b"}, [MESSAGE])
    assert result == Result(Outcome.FAILED, "sendmail exited with 75")


# HTTP


class Server:
    """A web server that notes requests, and answers with `status` and `headers`."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, dict[str, str]]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.append((self.path, dict(self.headers), body))
                status, headers = outer.answers.get(self.path, (204, {}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A web server on this machine."""
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def test_a_webhook_gets_json(server: Server) -> None:
    options = {"url": f"{server.url}/{SECRET}", "headers": {"Authorization": "Bearer x"}}
    assert deliver("ops", "webhook", options, [MESSAGE]) == [Result(Outcome.SENT)]
    ((path, headers, body),) = server.received
    assert path == f"/{SECRET}"
    assert (headers["Idempotency-Key"], headers["Authorization"]) == ("7-9.abc", "Bearer x")
    assert headers["Content-Type"] == "application/json"
    document = json.loads(body)
    assert (document["id"], document["subject"]) == ("7-9.abc", MESSAGE.subject)
    assert (document["text"], document["notifications"]) == (MESSAGE.text, [{"id": 7}])


def test_a_webhook_that_refuses_is_a_failure(server: Server) -> None:
    server.answers[f"/{SECRET}"] = 500, {}
    (result,) = deliver("ops", "webhook", {"url": f"{server.url}/{SECRET}"}, [MESSAGE])
    assert result == Result(Outcome.FAILED, "the server answers 500 Internal Server Error")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), ("86400", 3600.0), ("soon", None), ("-5", None), ("", None), ("9" * 400, 3600.0)],
)
def test_a_webhook_says_when_to_try_again(server: Server, header: str, seconds: float | None) -> None:
    server.answers["/busy"] = 429, {"Retry-After": header}
    (result,) = deliver("ops", "webhook", {"url": f"{server.url}/busy"}, [MESSAGE])
    assert result == Result(Outcome.FAILED, "the server answers 429 Too Many Requests", None, seconds)


@pytest.mark.parametrize(("minutes", "least"), [(10, 500.0), (-10, None)])
def test_a_webhook_says_at_which_time_to_try_again(server: Server, minutes: int, least: float | None) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)
    server.answers["/busy"] = 503, {"Retry-After": at}
    (result,) = deliver("ops", "webhook", {"url": f"{server.url}/busy"}, [MESSAGE])
    if least is None:
        assert result.retry_after is None
    else:
        assert least < (result.retry_after or 0) <= 600


def test_a_redirect_is_followed_on_the_same_host_only(server: Server) -> None:
    server.answers["/moved"] = 308, {"Location": "/new"}
    server.answers["/seen"] = 303, {"Location": "/new"}
    server.answers["/away"] = 307, {"Location": f"{server.url.replace('127.0.0.1', 'localhost')}/new"}
    results = [
        deliver("ops", "webhook", {"url": server.url + path}, [MESSAGE])[0]
        for path in ("/moved", "/away", "/seen")
    ]
    assert results[0] == Result(Outcome.SENT)
    assert results[1].error == "the server answers 307, a redirect to another host: it is not followed"
    assert results[2].error == "the server answers 303, a redirect that takes no message"
    assert [path for path, _, _ in server.received] == ["/moved", "/new", "/away", "/seen"]
    assert server.received[1][2] == server.received[0][2]


def test_a_server_that_is_not_there_is_a_failure(server: Server) -> None:
    server.http.server_close()
    (result,) = deliver("ops", "webhook", {"url": f"{server.url}/{SECRET}"}, [MESSAGE])
    assert result.outcome is Outcome.FAILED
    assert "no connection" in str(result.error)
    assert SECRET not in str(result)


# Apprise


@pytest.mark.slow
def test_apprise_sends_to_its_services(server: Server) -> None:
    url = server.url.replace("http://", "json://")
    assert deliver("ops", "apprise", {"url": f"{url}/{SECRET}"}, [MESSAGE]) == [Result(Outcome.SENT)]
    ((path, _, body),) = server.received
    assert path.rstrip("/") == f"/{SECRET}"
    assert json.loads(body)["title"] == MESSAGE.subject
    assert json.loads(body)["message"].rstrip() == MESSAGE.text.rstrip()
    assert "apprise" not in sys.modules, "only the child loads it"


@pytest.mark.slow
def test_a_failure_of_apprise_repeats_no_secret(server: Server) -> None:
    server.answers[f"/{SECRET}"] = server.answers[f"/{SECRET}/"] = 500, {}
    for url in (f"{server.url.replace('http', 'json')}/{SECRET}", f"unknown://{SECRET}"):
        (result,) = deliver("ops", "apprise", {"url": url}, [MESSAGE])
        assert result.outcome is Outcome.FAILED
        assert str(result.error).startswith("apprise")
        assert SECRET not in str(result)


def test_the_child_loads_no_modules_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dcron").mkdir()
    (tmp_path / "dcron" / "__init__.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert deliver("ops", "command", {"command": "true"}, [MESSAGE]) == [Result(Outcome.SENT)]
