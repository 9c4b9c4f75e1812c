"""The mail of a run's output, compared with mails of Debian's cron (tests/data/cron_mails)."""

from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from dcron.crontabfile import read
from dcron.model import Definition
from dcron.notifying import Message
from dcron.notifying.senders import Channel
from dcron.notifying.senders import mail as sender
from dcron.policy.channels import addresses_of, joined
from dcron.presentation import cron_mail
from dcron.presentation.cron_mail import LONGEST_BODY

RECORDED = Path(__file__).parents[1] / "data" / "cron_mails"
CRONTAB = read((RECORDED / "crontab").read_text(), source="jobs", timezone="UTC", system=True)
MAILED = [task for task in CRONTAB.definitions if task.notify]
HOMES = {"root": "/root", "daemon": "/usr/sbin"}


def facts(task: Definition) -> dict[str, Any]:
    login = {"HOME": HOMES[task.user or ""], "LOGNAME": task.user}
    return {"host": "vm", "user": task.user, "env": {**login, "SHELL": task.shell}}


def sent(task: Definition, mail: cron_mail.CronMail) -> Any:
    """Return the mail as sendmail gets it."""
    (channel,) = joined(task.notify)
    to = addresses_of(channel)
    message = Message("1", mail.subject, mail.text, to=to, headers=mail.headers)
    return sender.compose(Channel("post", "mail", {}), message)


@pytest.mark.parametrize("name", ["failed", "stdin", "text"])
def test_a_mail_has_the_headers_and_the_body_of_cron(name: str) -> None:
    recorded: Any = message_from_bytes((RECORDED / f"{name}.mail").read_bytes(), policy=default)
    task = MAILED[["failed", "stdin", "text"].index(name)]
    output = recorded.get_payload(decode=True)
    mail = cron_mail.compose(task.command, task.env, facts(task), output, len(output), 812)
    ours: Any = message_from_bytes(
        sent(task, mail).as_bytes(policy=sender._POLICY.clone(linesep="\n")), policy=default
    )
    for header in ("From", "To", "Subject"):
        assert ours[header] == recorded[header]
    assert sorted(ours.get_all("X-Cron-Env", [])) == sorted(recorded.get_all("X-Cron-Env", []))
    assert ours.get_content_type() == recorded.get_content_type()
    assert ours.get_payload(decode=True).rstrip(b"\n") == output.rstrip(b"\n")


def test_several_addresses_are_one_mail_as_of_cron() -> None:
    content = read("MAILTO=ann,ops@example.org\n0 6 * * * date\n", source="jobs", timezone="UTC")
    (task,) = content.definitions
    mail = sent(task, cron_mail.compose("date", task.env, {}, b"x\n", 2, 1))
    assert b"To: ann,ops@example.org" in mail.as_bytes(policy=sender._POLICY).splitlines()
    assert ("X-Cron-Env", "<MAILTO=ann,ops@example.org>") in mail.items()


def test_the_sender_is_mailfrom_or_that_of_the_channel_or_cron_s() -> None:
    def sender_of(env: dict[str, str], sender: str | None) -> str:
        return dict(cron_mail.compose("x", env, {}, b"", 0, 1, sender).headers)["From"]

    assert sender_of({}, None) == "root (Cron Daemon)"
    assert sender_of({}, "dcron@example.org") == "dcron@example.org"
    assert sender_of({"MAILFROM": "cron@example.org"}, "dcron@example.org") == "cron@example.org"


def test_a_long_output_is_cut_and_says_how_to_read_the_rest() -> None:
    output = b"0123456789\n" * 20_000
    mail = cron_mail.compose("x", {}, {}, output[:LONGEST_BODY], len(output), 812)
    assert len(mail.text.encode()) < LONGEST_BODY + 200
    assert mail.text.endswith(
        "\n\n[dcron: these are the first 100,000 of 220,000 bytes; the whole output: dcron logs 812]\n"
    )
    whole = cron_mail.compose("x", {}, {}, output[:99_990], 99_990, 812)
    assert whole.text == output[:99_990].decode()


def test_what_a_terminal_would_act_on_is_made_inert() -> None:
    output = b"a\x1b[31mred\x1b[0m\tb\r\nc\rd\x00\xff\n"
    mail = cron_mail.compose("x\n\x1b]0;title\x07y", {"A": "1\n2"}, {"user": "\x1broot"}, output, 9, 1)
    assert mail.text == "ared\tb\nc\nd␀\ufffd\n"
    assert "\x1b" not in mail.subject + mail.text
    assert "\n" not in mail.subject
    assert ("X-Cron-Env", "<A=1 2>") in mail.headers


HEADERS = {
    *("from", "to", "subject", "date", "message-id", "auto-submitted", "x-cron-env"),
    *("mime-version", "content-type", "content-transfer-encoding"),
}
HIDDEN = "=?utf-8?q?x=0ABcc=3A_evil=40example.org=0A=0Abody?="


@pytest.mark.parametrize("before", ["", " ", "x" * 990, "=\ufe0f?utf-8?q?=0AX: y?= "])
@pytest.mark.parametrize("options", [{}, {"smtp": "h"}])
def test_an_encoded_word_of_a_task_is_no_header(before: str, options: dict[str, str]) -> None:
    """The library would decode it, with the line ends in it."""
    hidden = before + HIDDEN
    env = {"A": hidden, "MAILFROM": f"{hidden} <a@b>"}
    mail = cron_mail.compose(hidden, env, {"user": hidden}, b"x", 1, 1)
    message = Message("1", mail.subject, mail.text, headers=mail.headers, to=(f"{hidden}@b",))
    data = sender.compose(Channel("post", "mail", options), message).as_bytes()
    assert b"evil" in data
    assert {name.lower() for name in message_from_bytes(data)} <= HEADERS
    assert data.split()[-1] == b"x"
