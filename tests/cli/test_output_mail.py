"""MAILTO from the import to the mail: real agents, and a sendmail that is a script."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.agents import agent
from tests.support.cli import Dcron
from tests.support.cron import mails_of_cron, sendmail_script, wait_for_mails, why_no_cron

DATA = Path(__file__).parents[1] / "data"
SAME = ("From", "To", "Subject")
JOB = re.compile(r"^(@\w+|[\d*]\S*(?:[ \t]+\S+){4})[ \t]+", re.MULTILINE)
"""The schedule of a line."""


def mails_of_dcron(
    dcron: Dcron, directory: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], count: int
) -> list[EmailMessage]:
    """Let an agent run these tasks; return its mails, of which there are `count`."""
    sendmail = sendmail_script(directory / "sendmail", directory / "mails-of-dcron")
    config = directory / "config.toml"
    config.write_text(f'[notify.post]\nkind = "mail"\nsendmail = "{sendmail}"\n')
    config.chmod(0o600)
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    for name in names:
        dcron.done("run", name)
    with agent(dcron):
        return wait_for_mails(directory / "mails-of-dcron", count)


def content(mail: EmailMessage) -> tuple[object, ...]:
    """Return what has to be the same in both mails."""
    variables = {
        str(each) for each in mail.get_all("X-Cron-Env", []) if not str(each).startswith("<CRON_TZ=")
    }
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    return (*(str(mail[name]) for name in SAME), variables, body.rstrip(b"\n"))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every account can read: cron sends mail as the account of the job."""
    with TemporaryDirectory(prefix="dcron-cron-") as path:
        yield Path(path)


@pytest.mark.slow
@pytest.mark.skipif(why_no_cron() is not None, reason=str(why_no_cron()))
@pytest.mark.parametrize("file", ["cron_mails/crontab", "crontabs/user-crontab"])
def test_a_mail_equals_the_one_of_debian_s_cron(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_directory: Path, file: str
) -> None:
    text, count = (DATA / file).read_text(), 3
    if file.endswith("user-crontab"):
        text = f"HOME={tmp_path}\n" + JOB.sub(r"\1 root ", text).replace("sleep 5; ", "")
        count += datetime.now().astimezone().weekday() == 0  # one of its commands prints on Mondays
    theirs = mails_of_cron(open_directory, JOB.sub("@reboot ", text), count)
    (tmp_path / "jobs").write_text(text)
    added = sqlite.done("import", "--system", str(tmp_path / "jobs"), "--json").json["added"]
    ours = mails_of_dcron(sqlite, tmp_path, monkeypatch, added, count)
    assert [content(mail) for mail in ours] == [content(mail) for mail in theirs]


@pytest.mark.slow
def test_each_run_that_prints_is_one_mail_to_all_addresses(
    dcron: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crontab = b'MAILTO=ann@example.org,bob\n@yearly seq 3\n@yearly true\nMAILTO=""\n@yearly echo none\n'
    added = dcron.done("import", "--user", "root", "--json", "-", stdin=crontab).json["added"]
    (mail,) = mails_of_dcron(dcron, tmp_path, monkeypatch, added, 1)
    assert (str(mail["To"]), mail.get_payload()) == ("ann@example.org, bob", "1\n2\n3\n")
