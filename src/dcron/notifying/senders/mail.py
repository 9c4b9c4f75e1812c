"""Send by mail: with sendmail(8), or with SMTP."""

import getpass
import smtplib
import socket
import ssl
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses, localtime
from functools import partial
from itertools import starmap
from typing import Any

from dcron.notifying.message import Message, SendError, UnknownOutcome
from dcron.notifying.senders import command
from dcron.notifying.senders.channel import Channel

SENDMAIL = "/usr/sbin/sendmail"
_PATIENCE = 20.0
"""Seconds for each step of the exchange."""
_LONGEST_LINE = 998
"""Bytes, by RFC 5322."""
_POLICY = SMTP.clone(max_line_length=_LONGEST_LINE)
"""Fold only what has to be folded: the subject of the output of a run is its command."""
_SMTPS, _SUBMISSION, _SMTP = 465, 587, 25


def send(channel: Channel, message: Message) -> str | None:
    """Send the mail. Return which addresses the server refused, or None. Raises SendError."""
    mail = compose(channel, message)
    if "smtp" in channel.options:
        return _send_by_smtp(channel.options, mail)
    argv = [channel.options.get("sendmail", SENDMAIL), "-oi", "-t"]
    command.run(argv, mail.as_bytes(policy=_POLICY.clone(linesep="\n")), "sendmail")
    return None


def compose(channel: Channel, message: Message) -> EmailMessage:
    """Return the mail. Raises SendError if it has no address."""
    to = message.to or _listed(channel.options.get("to"))
    if not to:
        raise SendError("the channel has no address: give `to` in its table of the config file")
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = _one_line(channel.options.get("from") or f"dcron <{_account()}>")
    mail["To"] = _one_line(",".join(to))
    mail["Subject"] = _one_line(message.subject)
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = f"<{message.id}@dcron>"
    mail["Auto-Submitted"] = "auto-generated"
    for name in {name for name, _ in message.headers}:
        del mail[name]
    for name, value in message.headers:
        mail[name] = _one_line(value)
    mail.set_content(message.text, cte=_encoding(message.text, is_smtp="smtp" in channel.options))
    return mail


def _encoding(text: str, *, is_smtp: bool) -> str | None:
    """Return the plainest transfer encoding that the text can have; None leaves the choice to the library."""
    if max((len(line.encode(errors="replace")) for line in text.splitlines()), default=0) > _LONGEST_LINE:
        return None
    if text.isascii():
        return "7bit"
    return "quoted-printable" if is_smtp else "8bit"  # not every server takes 8 bits


def _send_by_smtp(options: Any, mail: EmailMessage) -> str | None:
    host, port, tls = _server(options)
    sent = False
    try:
        context = ssl.create_default_context()
        connect = partial(smtplib.SMTP_SSL, context=context) if tls == "tls" else smtplib.SMTP
        with connect(host, port, timeout=_PATIENCE) as server:
            if tls == "starttls":
                server.starttls(context=context)
            if "user" in options:
                server.login(options["user"], options["password"])
            sent = True
            addresses = [address for _, address in getaddresses([mail["To"]])]
            # If the server accepts some of the addresses, the mail is sent: those must not get it again.
            refused = server.send_message(mail, to_addrs=addresses)
            return "; ".join(starmap(_refusal, sorted(refused.items()))) or None
    except smtplib.SMTPServerDisconnected as error:
        raise (UnknownOutcome if sent else SendError)(f"the mail server hung up: {error}") from None
    except smtplib.SMTPResponseException as error:
        text = error.smtp_error
        said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise SendError(f"the mail server answers {error.smtp_code} {said}") from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = ", ".join(sorted({str(code) for code, _ in error.recipients.values()}))
        raise SendError(f"the mail server refuses all addresses: {codes}") from None
    except smtplib.SMTPException as error:
        raise SendError(f"the mail server: {error}") from None
    except OSError as error:
        raise (UnknownOutcome if sent else SendError)(f"no connection to the mail server: {error}") from None


def _refusal(address: str, answer: tuple[int, bytes]) -> str:
    code, text = answer
    return f"the mail server refuses {address}: {code} {text.decode(errors='replace')}"


def _server(options: Any) -> tuple[str, int, str]:
    """Return host, port and encryption of `smtp = "HOST[:PORT]"`. Raises SendError."""
    host, colon, port_text = options["smtp"].rpartition(":")
    if not colon or options["smtp"].endswith("]"):
        host, port_text = options["smtp"], ""
    if port_text and not (port_text.isascii() and port_text.isdigit()):
        raise SendError('smtp is not of the form "HOST" or "HOST:PORT"')
    tls = options.get("tls")
    port = int(port_text or {"tls": _SMTPS, "starttls": _SUBMISSION}.get(tls, 0))
    port = port or (_SUBMISSION if "user" in options else _SMTP)
    by_port = {_SMTPS: "tls", _SUBMISSION: "starttls"}.get(port, "starttls" if "user" in options else "none")
    return host.strip("[]"), port, tls or by_port


def _listed(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _account() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in many containers
        name = "dcron"
    return f"{name}@{socket.gethostname() or 'localhost'}"


def _one_line(text: str) -> str:
    """Return a text that is one header: the library would decode `=?utf-8?q?...?=`, and line ends in it."""
    return " ".join(text.splitlines()).replace("=?", "= ?")
