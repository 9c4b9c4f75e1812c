"""Warnings about files that other accounts can change or read: once, on stderr, and silenced where meant."""

import os
from pathlib import Path

import pytest

from dcron.config.files import Config
from tests.support.cli import Dcron, real

WARNING = "dcron: warning: other accounts can change the database"


@pytest.fixture
def open_file(sqlite: Dcron) -> Path:
    """The database, with a mode that lets everyone write."""
    path = Path(sqlite.url.removeprefix("sqlite:///"))
    path.chmod(0o666)
    return path


@pytest.mark.parametrize(
    "words", [("list", "--json"), ("runs", "--json"), ("nodes", "--json"), ("db", "url")]
)
def test_a_verb_warns_once_and_its_data_stays_clean(sqlite: Dcron, open_file: Path, words: list[str]) -> None:
    done = sqlite.done(*words)
    assert done.err.count(WARNING) == 1
    assert f"type: chmod go-w {open_file}; if this is intended, add ?shared=true to the URL" in done.err
    assert "warning" not in done.out
    open_file.chmod(0o600)
    assert WARNING not in sqlite.done("list").err


def test_what_is_meant_to_be_shared_is_no_warning(sqlite: Dcron, open_file: Path) -> None:
    sqlite.url += "?shared=true"
    assert WARNING not in sqlite.done("list").err
    assert sqlite.done("db", "url").out == f"sqlite:///{open_file}\n"


@pytest.mark.slow
def test_the_tab_key_warns_of_nothing(sqlite: Dcron, open_file: Path) -> None:
    sqlite.done("add", "-n", "backup", "@daily", "true")
    done = real(
        url=sqlite.url,
        _DCRON_COMPLETE="complete_bash",
        COMP_WORDS="dcron view ba",
        COMP_CWORD="2",
        _TYPER_COMPLETE_ARGS="dcron view ba",
    )
    assert "warning" not in done.err


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0, reason="root's agent refuses it")
def test_an_agent_that_is_not_root_warns_and_runs(sqlite: Dcron, open_file: Path) -> None:
    done = real("agent", "--once", url=sqlite.url)
    assert done.code == 0
    assert done.err.count(WARNING) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("what", ["database", "shared database", "spool", "config"])
def test_an_agent_of_root_refuses_and_claims_nothing(sqlite: Dcron, tmp_path: Path, what: str) -> None:
    path = Path(sqlite.url.removeprefix("sqlite:///"))
    (tmp_path / "spool").mkdir()
    (tmp_path / "config.toml").touch(0o600)
    sqlite.done("add", "-n", "job", "0 0 1 1 *", "true")
    sqlite.done("run", "job")
    kind = what.split()[-1]
    guilty = {"database": path, "spool": tmp_path / "spool", "config": tmp_path / "config.toml"}[kind]
    guilty.chmod(0o777)
    url = sqlite.url + ("?shared=true" if what == "shared database" else "")
    refused = real("agent", "--once", url=url, DCRON_CONFIG=str(tmp_path / "config.toml"))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.count("\n") == 1, "one line says it all"
    assert f"can be written by every account (mode 0777); type: chmod go-w {guilty}" in refused.err
    sqlite.url += "?shared=true"
    assert sqlite.done("nodes", "--json").json == []
    guilty.chmod(0o700)
    assert real("agent", "--once", url=url, DCRON_CONFIG=str(tmp_path / "config.toml")).code == 0


def test_secrets_of_channels_that_every_account_can_read_are_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcron.cli.running.file_warnings import print_distrust
    from dcron.config.channels import parse
    from dcron.database.url import parse_url

    file = Path("/etc/dcron/config.toml")
    tables = {
        "ops": {"kind": "apprise", "url": "slack://s3cret"},
        "hook": {"kind": "webhook", "url": "https://example.org/s3cret"},
        "chat": {"kind": "apprise", "url_file": "/etc/dcron/chat"},
        "page": {"kind": "command", "command": "page"},
    }
    config = Config(notify={name: parse(name, table, file) for name, table in tables.items()})
    for readable in (True, False):
        monkeypatch.setattr("dcron.config.trust.can_be_read_by_all", lambda _, readable=readable: readable)
        print_distrust(config, parse_url("postgresql://cron@localhost/cron"))
        lines = capsys.readouterr().err.splitlines()
        assert lines == [
            f"dcron: warning: every account can read the secrets of {what}; type: chmod o-r {path}"
            for what, path in (
                (f"the channels ops, hook in {file}", file),
                ("the channel chat in /etc/dcron/chat", "/etc/dcron/chat"),
            )
            if readable
        ]


def test_a_password_that_every_account_can_read_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dcron.cli.running.file_warnings import print_distrust
    from dcron.database.url import parse_url

    for readable in (True, False):
        monkeypatch.setattr("dcron.config.trust.can_be_read_by_all", lambda _, readable=readable: readable)
        for url in ("postgresql://cron:s3cret@localhost/cron", "postgresql://cron@localhost/cron"):
            config = Config(database=url, database_file=Path("/etc/dcron/config.toml"))
            print_distrust(config, parse_url(url))
            said = capsys.readouterr().err
            assert ("every account can read the password in /etc" in said) is (readable and "s3cret" in url)
            assert "s3cret" not in said
