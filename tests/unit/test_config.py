"""Settings: the option, then the environment, then the config file, then the default."""

from pathlib import Path

import pytest

from dcron import config
from dcron.config import Config, load_config
from dcron.errors import UsageError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config file that $DCRON_CONFIG names."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("DCRON_CONFIG", str(path))
    return path


def test_a_file_that_says_everything_is_read(path: Path) -> None:
    path.write_text(
        'database = "sqlite:////srv/dcron.db"\ntimezone = "Europe/Berlin"\n'
        '[agent]\nname = "web-1"\nspool = "/var/spool/dcron"\n'
    )
    assert load_config() == Config(
        "sqlite:////srv/dcron.db", "Europe/Berlin", "web-1", Path("/var/spool/dcron")
    )


def test_an_empty_file_says_nothing(path: Path) -> None:
    path.touch()
    assert load_config() == Config()


def test_a_file_that_is_asked_for_has_to_be_there(path: Path) -> None:
    with pytest.raises(UsageError, match=r"config.toml \(\$DCRON_CONFIG\) does not exist"):
        load_config()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("databse = 'x'", "unknown setting 'databse'; known are agent, database, timezone"),
        ("[agent]\nnmae = 'x'", r"\[agent\] takes only the settings name and spool"),
        ("agent = 'x'", r"\[agent\] takes only"),
        ("timezone = 1", "1 is not a text in quotes"),
        ("database = ", "cannot read the config file"),
        ("database = '\\xff'", None),
    ],
)
def test_a_file_with_a_mistake_is_refused(path: Path, content: str, told: str | None) -> None:
    path.write_bytes(content.encode() if told else b"database = '\xff'")
    with pytest.raises(UsageError, match=told or "cannot read the config file") as failure:
        load_config()
    assert str(path) in str(failure.value)


def test_the_persons_file_comes_before_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SITE_CONFIG", tmp_path / "site.toml")
    assert config.config_path() == tmp_path / "site.toml"
    assert load_config() == Config()
    (tmp_path / "site.toml").write_text("timezone = 'Asia/Tokyo'")
    assert load_config().timezone == "Asia/Tokyo"
    personal = tmp_path / "home" / ".config" / "dcron" / "config.toml"
    personal.parent.mkdir(parents=True)
    personal.touch()
    assert config.config_path() == personal
    assert load_config() == Config()


def test_the_database_is_the_one_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config.database_url(None, Config()) == f"sqlite:///{tmp_path}/home/.local/share/dcron/dcron.db"
    assert config.database_url(None, Config(database="from-file")) == "from-file"
    monkeypatch.setenv("DCRON_DB", "from-environment")
    assert config.database_url(None, Config(database="from-file")) == "from-environment"
    assert config.database_url("option", Config(database="from-file")) == "option"


def test_the_spool_is_the_one_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config.spool_directory(Config(spool=Path("/elsewhere"))) == tmp_path / "spool"
    monkeypatch.delenv("DCRON_SPOOL")
    assert config.spool_directory(Config(spool=Path("/elsewhere"))) == Path("/elsewhere")
    assert config.spool_directory(Config()) == tmp_path / "home/.local/state/dcron/spool"


def test_the_actor_is_the_person_behind_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "web-1.example.org")
    monkeypatch.setenv("LOGNAME", "root")
    assert config.actor() == "root@web-1"
    monkeypatch.setenv("SUDO_USER", "ann")
    assert config.actor() == "ann@web-1"


def test_an_account_without_a_name_acts_under_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError("getpwuid(): uid not found: 4711")

    for name in ("SUDO_USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    assert config.actor().startswith("4711@")


def test_a_machine_without_a_name_is_called_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "")
    assert config.host_name() == "localhost"
