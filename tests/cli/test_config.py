"""`config`: settings that all users of a crontab share; and the zone of new tasks."""

from pathlib import Path
from typing import Any

import pytest

from dcron.schedule import zones
from tests.support.cli import Dcron


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine in Tokyo, used by an admin whose $TZ is Denver's."""
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    monkeypatch.setattr(zones, "TIMEZONE_FILE", tmp_path / "timezone")
    monkeypatch.setenv("TZ", "America/Denver")


def zone_of(dcron: Dcron, name: str, *words: str) -> tuple[str, str]:
    said = dcron.done("add", "-n", name, *words, "@daily", "true").out
    line = next((line for line in said.splitlines() if line.startswith("zone")), "")
    return dcron.done("view", name, "--json").json["timezone"], line.removeprefix("zone").strip()


def listed(dcron: Dcron) -> dict[str, Any]:
    """Return the settings by name."""
    return {each["name"]: each for each in dcron.done("config", "list", "--json").json}


def test_a_setting_is_listed_set_and_unset(dcron: Dcron) -> None:
    assert "not set" in dcron.done("config", "list").out
    assert listed(dcron)["timezone"] == {
        "name": "timezone",
        "value": None,
        "help": "Time zone of new tasks that name none.",
        "changed_at": None,
        "changed_by": None,
    }
    assert dcron.done("config", "set", "timezone", "Europe/Berlin").out == "timezone: Europe/Berlin\n"
    held = dcron.done("config", "set", "timezone", "Europe/Paris", "--json").json
    assert (held["value"], bool(held["changed_by"]), held["changed_at"][-1]) == ("Europe/Paris", True, "Z")
    assert "Europe/Paris" in dcron.done("config", "list").out
    assert dcron.done("config", "unset", "timezone").out.startswith("timezone: not set; ")
    assert dcron.done("config", "unset", "timezone").err == "timezone was not set\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "timezon", "UTC"], "there is no setting 'timezon'; did you mean timezone?"),
        (["unset", "colour"], "there is no setting 'colour'; the settings are "),
        (["set", "timezone", "Europe/Brelin"], "did you mean Europe/Berlin?"),
    ],
)
def test_what_is_no_setting_is_refused(sqlite: Dcron, words: list[str], message: str) -> None:
    refused = sqlite("config", *words)
    assert (refused.code, message in refused.err) == (2, True), refused.err


@pytest.mark.slow
@pytest.mark.usefixtures("tokyo")
def test_a_new_task_has_the_crontabs_zone_and_no_admins_own(dcron: Dcron) -> None:
    dcron.done("list")
    hint = "`dcron config set timezone ZONE` sets one for all users"
    assert zone_of(dcron, "machine") == ("Asia/Tokyo", f"Asia/Tokyo, this machine's; {hint}")
    dcron.done("config", "set", "timezone", "Europe/Berlin")
    assert zone_of(dcron, "shared") == ("Europe/Berlin", "Europe/Berlin, the crontab's")
    assert zone_of(dcron, "asked", "-z", "UTC") == ("UTC", "")
    assert dcron.done("in", "--json", "1h", "true").json["timezone"] == "Europe/Berlin"
    assert dcron.done("at", "--json", "tomorrow 09:00", "true").json["timezone"] == "Europe/Berlin"
    dcron.done("import", "-", "--user", "root", stdin=b"0 3 * * * imported\n")
    assert dcron.done("view", "imported", "--json").json["timezone"] == "Europe/Berlin"
    assert dcron.done("view", "machine", "--json").json["timezone"] == "Asia/Tokyo"


@pytest.mark.slow
@pytest.mark.usefixtures("tokyo")
def test_a_new_crontab_gets_the_zone_of_the_machine_that_makes_it(fresh: Dcron) -> None:
    assert "new tasks have the time zone Asia/Tokyo (this machine's)" in fresh.done("db", "init").err
    assert listed(fresh)["timezone"]["value"] == "Asia/Tokyo"
    assert fresh.done("db", "init").err == ""


@pytest.mark.usefixtures("tokyo")
def test_the_config_files_zone_holds_while_the_crontab_has_none(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('timezone = "Africa/Cairo"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(tmp_path / "config.toml"))
    assert zone_of(sqlite, "one")[0] == "Africa/Cairo"
    sqlite.done("config", "set", "timezone", "Europe/Berlin")
    assert zone_of(sqlite, "two")[0] == "Europe/Berlin"


def test_a_wrong_zone_in_the_config_file_is_said_to_be_there(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('timezone = "Europe/Nope"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    for words in (["add", "@daily", "true"], ["preview", "@daily"]):
        refused = sqlite(*words)
        assert (refused.code, "timezone in the config file: 'Europe/Nope'" in refused.err) == (2, True), words


def test_one_setting_is_printed(sqlite: Dcron) -> None:
    sqlite.done("config", "set", "keep.runs", "40d")
    assert sqlite.done("config", "get", "keep.runs").out == sqlite.done("config", "keep.runs").out == "40d\n"
    assert sqlite.done("config", "keep.runs", "--json").json["name"] == "keep.runs"
    unset = sqlite.done("config", "get", "timezone")
    assert (unset.out, "timezone is not set" in unset.err) == ("", True)
    wrong = sqlite("config", "get", "keep.rnus")
    assert (wrong.code, "did you mean keep.runs?" in wrong.err) == (2, True)
