"""Channels in the config file: what is refused, and that no message repeats a secret."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dcron.config.channels import Channel, offered, parse, usable
from dcron.config.files import load_config
from dcron.errors import Refused, UsageError

SECRET = "s3cr3t-token"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config file that $DCRON_CONFIG names."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("DCRON_CONFIG", str(path))
    return path


def test_all_kinds_are_read(path: Path) -> None:
    path.write_text(
        '[notify.ops]\nkind = "webhook"\nurl = "$URL"\nheaders = { Authorization = "$TOKEN" }\n'
        '[notify.mail]\nkind = "mail"\nto = ["a@example.org", "b@example.org"]\nsmtp = "mail:587"\n'
        'user = "u"\npassword = "$P"\ntls = "starttls"\nfrom = "dcron@example.org"\n'
        '[notify.page]\nkind = "command"\ncommand = ["/usr/bin/page", "ops"]\nformat = "json"\n'
        '[notify.chat]\nkind = "apprise"\nurl_file = "/etc/dcron/chat"\n'
    )
    found = load_config().notify
    assert {name: channel.kind for name, channel in found.items()} == {
        "ops": "webhook",
        "mail": "mail",
        "page": "command",
        "chat": "apprise",
    }
    assert {channel.file for channel in found.values()} == {path}
    assert offered(list(found.values())) == ("chat", "mail", "ops", "page", "mailto")
    assert not any(channel.has_secret for channel in found.values()), "variables and files are no secrets"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[notify]\nops = 1", r"\[notify\] takes tables such as"),
        ("notify = 1", r"\[notify\] takes tables such as"),
        ("[notify.Ops]\nkind = 'mail'", "'Ops' cannot be the name of a channel; use a letter"),
        ("[notify.mailto]\nkind = 'mail'", "'mailto' cannot be the name"),
        ("[notify.ops]", r"\[notify.ops\]: kind is one of mail, webhook, command, apprise$"),
        ("[notify.ops]\nkind = 's3cr3t-token'", r"\[notify.ops\]: kind is one of mail, webhook"),
        ("[notify.ops]\nkind = 'webhook'", "url or url_file is missing"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 's3cr3t-token'", "url is not an address that begins"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://:s3cr3t-token@/'", "url is not an address"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://h:s3cr3t-token/'", "url is not an address"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://a:s3cr3t-token@h/'", "without user:password@"),
        ("[notify.ops]\nkind = 'webhook'\nurl = ['s3cr3t-token']", "url is not a text in quotes$"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://h/'\nurl_file = '/x'", "not both"),
        ("[notify.ops]\nkind = 'webhook'\nurl_file = 'x'", "url_file is not an absolute path"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://h/s3cr3t-token\\n'", None),
        ("[notify.ops]\nkind = 'webhook'\nurl = \"http://h/s3cr3t-token\\n\"", "control character"),
        ("[notify.ops]\nkind = 'webhook'\nurl = 'http://h/'\nheaders = 's3cr3t-token'", "a table of texts"),
        ("[notify.ops]\nkind = 'webhook'\nurll = 's3cr3t-token'", "unknown setting 'urll'; did you mean url"),
        ("[notify.ops]\nkind = 'mail'\nurl = 's3cr3t-token'", "unknown setting 'url'; kind mail takes from"),
        ("[notify.ops]\nkind = 'mail'\ntls = 'ssl'", "tls needs smtp|tls is one of none, starttls, tls"),
        ("[notify.ops]\nkind = 'mail'\ntls = 'tls'", "tls needs smtp"),
        ("[notify.ops]\nkind = 'mail'\nsmtp = 'h'\nuser = 'u'", "give user together with password"),
        ("[notify.ops]\nkind = 'mail'\nsmtp = 'h'\npassword = 's3cr3t-token'", "give user together"),
        ("[notify.ops]\nkind = 'mail'\nsmtp = 'h'\nsendmail = '/x'", "give smtp or sendmail"),
        ("[notify.ops]\nkind = 'mail'\nsendmail = 'x'", "sendmail is not an absolute path"),
        ("[notify.ops]\nkind = 'mail'\nto = []", "to is not a text in quotes, or a list"),
        ("[notify.ops]\nkind = 'command'", "command is missing"),
        ("[notify.ops]\nkind = 'command'\ncommand = 'x'\nformat = 'xml'", "format is one of text, json"),
        ("[notify.ops]\nkind = 'apprise'", "url or url_file is missing"),
    ],
)
def test_a_table_with_a_mistake_is_refused(path: Path, table: str, message: str | None) -> None:
    path.write_text(table)
    if message is None:
        load_config()
        return
    with pytest.raises(UsageError, match=message) as failure:
        load_config()
    assert str(path) in str(failure.value)
    assert SECRET not in str(failure.value)


def test_a_user_s_channel_replaces_the_site_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, own = tmp_path / "site.toml", tmp_path / "own.toml"
    site.write_text("[notify.ops]\nkind = 'mail'\nto = 'a@b'\n[notify.other]\nkind = 'mail'\n")
    own.write_text("[notify.ops]\nkind = 'mail'\nfrom = 'c@d'\n")
    monkeypatch.setattr("dcron.config.files.config_paths", lambda: [site, own])
    found = load_config().notify
    assert found["ops"] == Channel("ops", "mail", {"from": "c@d"})
    assert (found["ops"].file, found["other"].file) == (own, site)


def channel(table: Mapping[str, object]) -> Channel:
    """Return a channel `ops`."""
    return parse("ops", dict(table), Path("/etc/dcron/config.toml"))


def test_variables_and_files_are_read_when_a_message_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("https://example.org/one\n")
    hook = channel({"kind": "webhook", "url_file": str(file), "headers": {"X": "$TOKEN", "Y": "${TOKEN}"}})
    assert hook.resolved({"TOKEN": "t"}) == {
        "url": "https://example.org/one",
        "headers": {"X": "t", "Y": "t"},
    }
    file.write_text("https://example.org/two")
    assert hook.resolved({"TOKEN": "t"})["url"].endswith("two")
    own = {"kind": "command", "command": "$PAGER ops"}
    assert channel(own).resolved({"PAGER": "x"}) == {"command": "$PAGER ops"}, "the shell replaces it"


def test_an_agent_does_not_offer_what_it_cannot_send(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    tables: dict[str, dict[str, object]] = {
        "good": {"kind": "mail", "to": "a@b"},
        "variable": {"kind": "webhook", "url": "$MISSING"},
        "gone": {"kind": "apprise", "url_file": str(tmp_path / "gone")},
        "empty": {"kind": "apprise", "url_file": str(empty)},
        "lines": {"kind": "apprise", "url": "$LINES"},
    }
    given = {name: parse(name, table, Path("/x")) for name, table in tables.items()}
    good, problems = usable(given, strict=False, environment={"LINES": f"a\n{SECRET}"})
    assert [each.name for each in good] == ["good"]
    assert problems == [
        "channel variable: url: $MISSING is not set",
        f"channel gone: url_file {tmp_path / 'gone'}: No such file or directory",
        f"channel empty: url_file {empty} is empty",
        "channel lines: $LINES has a control character, such as a line break",
    ]


def test_root_refuses_a_file_that_others_can_change(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(SECRET)
    file.chmod(0o666)
    hook = channel({"kind": "apprise", "url_file": str(file)})
    assert hook.resolved({})["url"] == SECRET
    with pytest.raises(Refused, match="can be written by every account") as failure:
        hook.resolved({}, strict=True)
    assert SECRET not in str(failure.value)


@pytest.mark.parametrize(
    ("table", "has_secret"),
    [
        ({"kind": "apprise", "url": f"slack://{SECRET}"}, True),
        ({"kind": "apprise", "url": ["$A", f"slack://{SECRET}"]}, True),
        ({"kind": "apprise", "url": ["$A", "${B}"]}, False),
        ({"kind": "mail", "smtp": "h", "user": "u", "password": SECRET}, True),
        ({"kind": "webhook", "url": "$URL", "headers": {"X": SECRET}}, True),
        ({"kind": "command", "command": "x"}, False),
    ],
)
def test_a_secret_in_the_config_file_is_known(table: dict[str, object], has_secret: bool) -> None:
    assert channel(table).has_secret is has_secret
    assert SECRET not in repr(channel(table))
