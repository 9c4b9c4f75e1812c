"""Debian's own cron, in a mount namespace of its own: what it mails."""

import os
import shutil
import subprocess
import time
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

CRON = Path("/usr/sbin/cron")

_SCRIPT = """\
set -e
mount --make-rprivate /
mount --bind {0}/sbin /usr/sbin
mount --bind {0}/cron.d /etc/cron.d
mount --bind {0}/empty /etc/crontab
mount --bind {0}/spool /var/spool/cron
mount -t tmpfs none /run
exec {0}/sbin/cron -f
"""
_SENDMAIL = """\
#!/bin/sh
f=$(mktemp {0}/.XXXXXX)
cat > "$f"
mv "$f" "{0}/$(basename "$f" | tr -d .)"
"""


def why_no_cron() -> str | None:
    """Return why cron cannot be run here, or None."""
    if os.geteuid() != 0 or not CRON.exists():
        return "needs root and cron"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return "needs a mount namespace" if done.returncode else None


def sendmail_script(path: Path, mails: Path) -> Path:
    """Write a sendmail that puts each mail into a file of a directory."""
    mails.mkdir(exist_ok=True)
    mails.chmod(0o1777)
    path.write_text(_SENDMAIL.format(mails))
    path.chmod(0o755)
    return path


def read_mails(mails: Path) -> list[EmailMessage]:
    """Return the mails of a directory, by subject."""
    files = [path for path in mails.iterdir() if not path.name.startswith(".")]
    found: list[Any] = [message_from_bytes(path.read_bytes(), policy=default) for path in files]
    return sorted(found, key=lambda mail: str(mail["Subject"]))


def wait_for_mails(mails: Path, count: int, within: float = 60) -> list[EmailMessage]:
    """Wait until there are so many mails; return them."""
    deadline = time.monotonic() + within
    while len(found := read_mails(mails)) < count:
        assert time.monotonic() < deadline, [mail["Subject"] for mail in found]
        time.sleep(0.05)
    return found


def mails_of_cron(directory: Path, crontab: str, count: int) -> list[EmailMessage]:
    """Let cron run a system crontab of `@reboot` lines; return its mails, of which there are `count`."""
    directory.chmod(0o755)
    for name in ("cron.d", "spool"):
        (directory / name).mkdir()
    (directory / "spool" / "crontabs").mkdir()
    (directory / "empty").touch()
    (directory / "cron.d" / "jobs").write_text(crontab)
    (directory / "sbin").mkdir()
    shutil.copy(CRON, directory / "sbin" / "cron")
    sendmail_script(directory / "sbin" / "sendmail", directory / "mails")
    script = _SCRIPT.format(directory)
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.DEVNULL) as process:
        try:
            return wait_for_mails(directory / "mails", count)
        finally:
            process.terminate()
