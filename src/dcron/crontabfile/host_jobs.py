"""Recognise the jobs that packages put into /etc/cron.d of every host."""

import re

from dcron.crontabfile import shellwords

KNOWN: dict[str, str] = {
    # what the file or the command names: what it is for
    "anacron": "starts this host's own anacron",
    "apticron": "looks for this host's package updates",
    "certbot": "renews this host's certificates",
    "checkarray": "checks this host's RAID arrays (mdadm)",
    "debian-sa1": "collects this host's activity (sysstat)",
    "debsecan": "checks this host's packages",
    "e2scrub_all": "checks this host's file systems (e2fsprogs)",
    "e2scrub_reap": "checks this host's file systems (e2fsprogs)",
    "fstrim": "trims this host's disks",
    "logcheck": "reads this host's logs",
    "logrotate": "rotates this host's logs",
    "mdadm": "checks this host's RAID arrays",
    "mdcheck": "checks this host's RAID arrays (mdadm)",
    "munin-node": "serves this host's figures to Munin",
    "ntpsec": "rotates this host's clock statistics",
    "popularity-contest": "reports this host's packages",
    "raid-check": "checks this host's RAID arrays",
    "rkhunter": "checks this host for intruders",
    "run-parts": "runs this host's own /etc/cron.* directories",
    "sa1": "collects this host's activity (sysstat)",
    "sa2": "collects this host's activity (sysstat)",
    "sessionclean": "removes this host's old PHP sessions",
    "smartd": "checks this host's disks",
    "sysstat": "collects this host's activity",
    "unattended-upgrade": "installs this host's updates",
    "zfsutils-linux": "checks this host's ZFS pools",
    "zpool": "checks this host's ZFS pools",
}
WORD = re.compile(r"[A-Za-z0-9_.-]+")
LOOKED_AT = 500
"""Characters of a command."""


def known(source: str, command: str) -> str | None:
    """Return the name of a well-known job of a host, and what it does; None for any other line."""
    words = [shellwords.base(source), *WORD.findall(command[:LOOKED_AT])]
    return next((f"{word} {KNOWN[word]}" for word in words if word in KNOWN), None)
