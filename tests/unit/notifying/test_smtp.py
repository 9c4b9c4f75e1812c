"""Mail by SMTP, to a server of the test."""

import socketserver
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest

from dcron.notifying import Message, Outcome
from dcron.notifying.message import SendError, UnknownOutcome
from dcron.notifying.senders import Channel, mail

MESSAGE = Message("7-9.abc", "[dcron] Größe", "Äöü\n.\nend\n")
SECRET = "s3cr3t-token"


class Server(socketserver.ThreadingTCPServer):
    """A mail server that notes what it gets; `refuses` maps the begin of a command to its answer."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.commands: list[str] = []
        self.mails: list[bytes] = []
        self.refuses: dict[str, str] = {}
        self.hangs_up_after_data = False


class Session(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        self.say("220 test")
        for raw in self.rfile:
            line = raw.decode().strip()
            self.server.commands.append(line)
            command = line.upper()
            word = command.split(":")[0]
            if refusal := next(
                (each for key, each in self.server.refuses.items() if command.startswith(key)), None
            ):
                self.say(refusal)
            elif word.startswith("EHLO"):
                self.say("250-test\r\n250 AUTH PLAIN")
            elif word.startswith("AUTH"):
                self.say("235 welcome")
            elif word == "DATA":
                self.say("354 go on")
                lines = []
                while (got := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(got.removeprefix(b"."))
                self.server.mails.append(b"".join(lines))
                if self.server.hangs_up_after_data:
                    return
                self.say("250 queued")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@pytest.fixture
def server() -> Iterator[Server]:
    """A mail server on this machine."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def channel(server: Server, **options: Any) -> Channel:
    """Return a channel that uses the server."""
    at = f"127.0.0.1:{server.server_address[1]}"
    to = ["Ops <ops@example.org>", "ann@example.org"]
    return Channel("ops", "mail", {"smtp": at, "to": to, "from": "dcron@example.org", **options})


def test_mail_goes_to_all_addresses(server: Server) -> None:
    mail.send(channel(server), MESSAGE)
    sent = [
        command.lower() for command in server.commands
    ]  # 3.13 writes MAIL FROM, earlier versions mail FROM
    assert any(command.startswith("mail from:<dcron@example.org>") for command in sent)
    assert [command for command in sent if command.startswith("rcpt")] == [
        "rcpt to:<ops@example.org>",
        "rcpt to:<ann@example.org>",
    ]
    received = message_from_bytes(server.mails[0], policy=default)
    assert received["Subject"] == MESSAGE.subject
    assert received.get_content().replace("\r\n", "\n") == MESSAGE.text
    assert received["Message-ID"] == "<7-9.abc@dcron>"
    assert server.mails[0].isascii(), "not every server takes 8 bits"


def test_a_password_is_not_sent_without_encryption_unless_that_is_chosen(server: Server) -> None:
    with pytest.raises(SendError, match="STARTTLS") as failure:
        mail.send(channel(server, user="ann", password=SECRET), MESSAGE)
    assert failure.value.outcome is Outcome.FAILED
    assert not any(each.startswith("AUTH") for each in server.commands)
    mail.send(channel(server, user="ann", password=SECRET, tls="none"), MESSAGE)
    assert any(each.startswith("AUTH PLAIN") for each in server.commands)


def test_an_address_that_is_refused_does_not_let_the_others_get_the_mail_again(server: Server) -> None:
    server.refuses = {"RCPT TO:<ANN": "550 unknown"}
    assert mail.send(channel(server), MESSAGE) == "the mail server refuses ann@example.org: 550 unknown"
    assert len(server.mails) == 1
    server.refuses = {}
    assert mail.send(channel(server), MESSAGE) is None


@pytest.mark.parametrize(
    ("refuses", "error"),
    [
        ({"AUTH": "535 no such user"}, "the mail server answers 535 no such user"),
        ({"MAIL FROM": "550 not you"}, "the mail server answers 550 not you"),
        ({"RCPT TO": "550 unknown"}, "the mail server refuses all addresses: 550"),
        ({"DATA": "554 spam"}, "the mail server answers 554 spam"),
    ],
)
def test_a_refusal_is_a_failure(server: Server, refuses: dict[str, str], error: str) -> None:
    server.refuses = refuses
    with pytest.raises(SendError) as failure:
        mail.send(channel(server, user="ann", password=SECRET, tls="none"), MESSAGE)
    assert (str(failure.value), failure.value.outcome) == (error, Outcome.FAILED)


def test_without_the_last_answer_it_may_have_arrived(server: Server) -> None:
    server.hangs_up_after_data = True
    with pytest.raises(UnknownOutcome, match="hung up"):
        mail.send(channel(server), MESSAGE)
    assert len(server.mails) == 1


def test_a_server_that_is_not_there_is_a_failure(server: Server) -> None:
    server.server_close()
    with pytest.raises(SendError, match="no connection to the mail server") as failure:
        mail.send(channel(server), MESSAGE)
    assert failure.value.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"smtp": "mail"}, ("mail", 25, "none")),
        ({"smtp": "mail", "user": "u"}, ("mail", 587, "starttls")),
        ({"smtp": "mail:465"}, ("mail", 465, "tls")),
        ({"smtp": "mail:2525", "user": "u"}, ("mail", 2525, "starttls")),
        ({"smtp": "mail", "tls": "tls"}, ("mail", 465, "tls")),
        ({"smtp": "mail:587", "tls": "none"}, ("mail", 587, "none")),
        ({"smtp": "[::1]:25"}, ("::1", 25, "none")),
        ({"smtp": "[::1]"}, ("::1", 25, "none")),
    ],
)
def test_the_port_decides_on_encryption(options: dict[str, str], expected: tuple[str, int, str]) -> None:
    assert mail._server(options) == expected
