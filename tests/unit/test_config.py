"""Settings: the option, then the environment, then the config file, then the default."""

from pathlib import Path

import pytest

from dcron.config import files as config
from dcron.config.files import Config, load_config
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
    agent = {"name": "web-1", "spool": "/var/spool/dcron"}
    assert load_config() == Config("sqlite:////srv/dcron.db", "Europe/Berlin", agent)


def test_an_empty_file_says_nothing(path: Path) -> None:
    path.touch()
    assert load_config() == Config()


def test_a_file_that_is_asked_for_has_to_be_there(path: Path) -> None:
    with pytest.raises(UsageError, match=r"config.toml \(\$DCRON_CONFIG\) does not exist"):
        load_config()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("databse = 'x'", "unknown setting 'databse'; did you mean database"),
        ("colour = 'x'", "unknown setting 'colour'; known are agent, context, database"),
        ("[agent]\nnmae = 'x'", r"\[agent\]: unknown setting 'nmae'; did you mean name"),
        ("agent = 'x'", r"\[agent\] takes lines such as"),
        ("timezone = 1", "timezone is not a text in quotes"),
        ("database = ['s3cret']", "database is not a text in quotes$"),
        ("[agent]\nslots = 0", "slots is a number from 1 on, not 0"),
        ("[agent]\nslots = true", "slots is a number from 1 on, not True"),
        ("[agent]\ntag = ['a', 1]", r"tag is a text in quotes, or a list such as"),
        ("[agent]\nlease = 60", "lease is a text in quotes, not 60"),
        ("database = ", "cannot read the config file"),
        ("database = '\\xff'", None),
    ],
)
def test_a_file_with_a_mistake_is_refused(path: Path, content: str, message: str | None) -> None:
    path.write_bytes(content.encode() if message else b"database = '\xff'")
    with pytest.raises(UsageError, match=message or "cannot read the config file") as failure:
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
    assert load_config() == Config(timezone="Asia/Tokyo")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's config file."""
    monkeypatch.setattr(config, "SITE_CONFIG", tmp_path / "site.toml")
    return tmp_path / "site.toml"


@pytest.fixture
def personal(tmp_path: Path) -> Path:
    """The user's config file."""
    path = tmp_path / "home" / ".config" / "dcron" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_both_files_are_merged_key_by_key_and_the_users_wins(site: Path, personal: Path) -> None:
    site.write_text(
        'database = "postgresql://db/cron"\ntimezone = "Asia/Tokyo"\n'
        '[agent]\nslots = 8\ntag = ["ssd"]\nlease = "30s"\ncapacity = "gpu=1"\n'
        '[tui]\ntheme = "light"\nmouse = false\n[tui.keys]\n"a.b" = "x"\n'
    )
    personal.write_text(
        'timezone = "Europe/Berlin"\n[agent]\ntag = "hdd"\n[tui]\nmouse = true\n[tui.keys]\n"c.d" = "y"\n'
    )
    found = load_config()
    assert (found.database, found.timezone) == ("postgresql://db/cron", "Europe/Berlin")
    assert found.agent == {"slots": 8, "tag": ["hdd"], "lease": "30s", "capacity": ["gpu=1"]}
    assert (found.tui.theme, found.tui.mouse) == ("light", True)
    assert found.tui.keys == {"a.b": "x", "c.d": "y"}


@pytest.mark.parametrize("content", ["database = ", "oops = 1", None])
def test_a_site_file_that_cannot_be_used_stops_only_who_needs_it(
    site: Path, personal: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    site.write_text(content or "database = 'sqlite:////srv/dcron.db'")
    if content is None:
        read_text = Path.read_text

        def unreadable(self: Path, encoding: str) -> str:
            if self == site:
                raise PermissionError(13, "Permission denied")
            return read_text(self, encoding)

        monkeypatch.setattr(Path, "read_text", unreadable)
    found = load_config()
    assert len(found.unread) == 1
    assert str(site) in found.unread[0]
    assert config.database_url("sqlite:////tmp/x.db", found) == "sqlite:////tmp/x.db"
    with pytest.raises(UsageError, match="may name the database"):
        config.database_url(None, found)
    monkeypatch.setenv("DCRON_DB", "sqlite:////tmp/y.db")
    assert config.database_url(None, found) == "sqlite:////tmp/y.db"


def test_a_mistake_in_the_user_s_own_file_is_named(site: Path, personal: Path) -> None:
    personal.write_text("databse = 'x'")
    with pytest.raises(UsageError, match="did you mean database"):
        load_config()


def test_the_database_is_the_one_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config.database_url(None, Config()) == f"sqlite:///{tmp_path}/home/.local/share/dcron/dcron.db"
    assert config.database_url(None, Config(database="from-file")) == "from-file"
    monkeypatch.setenv("DCRON_DB", "from-environment")
    assert config.database_url(None, Config(database="from-file")) == "from-environment"
    assert config.database_url("option", Config(database="from-file")) == "option"


def test_the_spool_is_the_one_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere = Config(agent={"spool": "/elsewhere"})
    assert config.spool_directory(elsewhere) == tmp_path / "spool"
    monkeypatch.delenv("DCRON_SPOOL")
    assert config.spool_directory(elsewhere) == Path("/elsewhere")
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
