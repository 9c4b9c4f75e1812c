"""Warnings about files that other accounts can change or read."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dcron import config
from dcron.cli.output import console
from dcron.config import trust

if TYPE_CHECKING:
    from dcron.database.url import Address


def print_distrust(own: "config.files.Config", address: "Address") -> None:
    """Warn of files that other accounts can change, and of a password that they can read."""
    for warning in own.distrusted:
        console.complain(f"warning: {warning}")
    _print_readable_password(own)
    _print_readable_channels(own)
    _print_open_database(address)


def _print_readable_password(own: "config.files.Config") -> None:
    from dcron.database.url import redact

    file, url = own.database_file, own.named_database or ""
    if file and redact(url) != url and trust.can_be_read_by_all(file):
        remedy = f"chmod o-r {shlex.quote(str(file))}"
        console.complain(f"warning: every account can read the password in {file}; type: {remedy}")


def _print_readable_channels(own: "config.files.Config") -> None:
    files: dict[Path, list[str]] = {}
    for channel in own.notify.values():
        secret = [channel.file] if channel.file and channel.has_secret else []
        for file in (*secret, *channel.secret_files):
            files.setdefault(file, []).append(channel.name)
    for file, names in files.items():
        if trust.can_be_read_by_all(file):
            remedy = f"chmod o-r {shlex.quote(str(file))}"
            what = f"the channel{'s' if len(names) > 1 else ''} {', '.join(names)}"
            console.complain(
                f"warning: every account can read the secrets of {what} in {file}; type: {remedy}"
            )


def _print_open_database(address: "Address") -> None:
    from dcron.database.files import problem_with

    path = address.path
    if path and not address.shared and (problem := problem_with(path)):
        warning = trust.warning(f"the database {path}", problem)
        console.complain(f"warning: {warning}; if this is intended, add ?shared=true to the URL")
