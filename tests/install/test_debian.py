"""The Debian package: installed, upgraded, removed, purged on a copy of the machine that is thrown away."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.install.conftest import Place

OVERLAY = """
set -e
mount -t tmpfs tmpfs {place}
mkdir {place}/upper {place}/work {place}/root
mount -t overlay overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work {place}/root
mount -t proc proc {place}/root/proc
mount --rbind /dev {place}/root/dev
exec chroot {place}/root sh -ec '{script}'
"""
"""Runs a script as root on a copy of the machine's files; `unshare` gives it mounts of its own."""
SCRIPT = """
mkdir /tmp/dcron-home
export HOME=/tmp/dcron-home
find /etc /opt /usr /var -name "*dcron*" >/tmp/dcron-before
dpkg -i first.deb
dcron --version
dcron add -n first @daily "echo installed"
dcron run first
dcron agent --once 2>&1 | grep "one line accepts every account"
echo "accounts = [\\"*\\", \\"root\\"]" >/etc/dcron/policy.toml
dcron agent --once
test "$(dcron logs first)" = installed
test -e /usr/share/man/man1/dcron.1.gz -a -e /usr/share/bash-completion/completions/dcron
test -e /usr/share/zsh/vendor-completions/_dcron -a -e /usr/share/fish/vendor_completions.d/dcron.fish
for unit in dcron-agent dcron-agent-unprivileged; do
    test "$(systemctl is-enabled $unit.service)" = disabled
    grep "^ExecStart=/usr/bin/dcron agent" /usr/lib/systemd/system/$unit.service
done
echo "timezone = \\"Europe/Berlin\\"" >>/etc/dcron/config.toml
systemctl enable dcron-agent.service
dpkg -i --force-confold second.deb
grep Berlin /etc/dcron/config.toml
rm /etc/dcron/policy.toml
dcron list
dpkg --remove dcron
grep Berlin /etc/dcron/config.toml
test ! -e /usr/bin/dcron -a ! -e /usr/lib/dcron
test ! -e /etc/systemd/system/multi-user.target.wants/dcron-agent.service
dpkg --purge dcron
find /etc /opt /usr /var -name "*dcron*" >/tmp/dcron-after
diff /tmp/dcron-before /tmp/dcron-after
echo all is well
"""
NEEDED = ("dpkg-deb", "unshare", "systemctl", "find")


def can_play() -> bool:
    """Return whether this is root on a Debian whose Python dcron runs on, and that may mount."""
    if os.geteuid() != 0 or not all(map(shutil.which, NEEDED)):
        return False
    new_enough = ["/usr/bin/python3", "-c", "import sys, venv; sys.exit(sys.version_info < (3, 11))"]
    mount = ["unshare", "--mount", "sh", "-ec", OVERLAY.format(place="/mnt", script="true")]
    return all(
        subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in (new_enough, mount)
    )


def test_a_package_is_installed_upgraded_removed_and_purged(source: Path, tools: Path, place: Place) -> None:
    if not can_play():
        pytest.skip("needs root on Debian, its Python 3.11 or later, and overlayfs")
    place("sh", "scripts/deb.sh", cwd=source, BIN=str(tools))
    [package] = (source / "dist").glob("dcron_*.deb")
    shutil.move(package, place.home / "first.deb")
    newer(place, place.home / "first.deb", place.home / "second.deb")
    script = f"cd {place.home}\n{SCRIPT}"
    shown = place("unshare", "--mount", "sh", "-ec", OVERLAY.format(place="/mnt", script=script))
    assert shown.endswith("all is well\n")


def newer(place: Place, package: Path, target: Path) -> None:
    """Make a package of a later version, with another config file."""
    content = place.home / "content"
    place("dpkg-deb", "-R", package, content)
    control = content / "DEBIAN/control"
    lines = control.read_text().splitlines()
    control.write_text(
        "\n".join("Version: 99" if each.startswith("Version:") else each for each in lines) + "\n"
    )
    with (content / "etc/dcron/config.toml").open("a") as file:
        file.write("# A line of the later version\n")
    place("dpkg-deb", "-Znone", "-b", content, target)
