"""Time zones: the wheel's alone."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dcron.errors import ZoneError
from dcron.schedule import zones
from dcron.schedule.zones import default_zone, tzdata_fingerprint, tzdata_version, zone, zone_names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Factory", "is not a time zone"),
        ("localtime", "is not a time zone"),
        ("posix/Europe/Berlin", "is not a time zone; did you mean Europe/Berlin?"),
        ("right/Europe/Berlin", "is not a time zone"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("CEST", "'CEST' is a time of year, not a zone; write a place: Europe/Berlin"),
        ("EDT", "write a place: America/New_York"),
        ("PST", "an abbreviation can mean several: write a place"),
        ("", "names look like Europe/Berlin or UTC"),
        ("../../etc/passwd", "is not a time zone"),
        ("x" * 100_000, "is not a time zone"),
    ],
)
def test_other_names_are_refused_with_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(ZoneError) as refusal:
        zone(name)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_every_name_of_the_wheel_is_a_zone() -> None:
    assert len(zone_names()) > 590
    for name in zone_names():
        assert datetime(2027, 1, 1, tzinfo=zone(name)).utcoffset() is not None


def test_the_systems_own_database_is_not_read(tmp_path: Path) -> None:
    """A file that the system has, and the wheel has not, must not be found."""
    wheel = zones._WHEEL / "zoneinfo"
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes((wheel / "Asia" / "Tokyo").read_bytes())
    script = (
        "import zoneinfo; early = zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "from datetime import datetime; from dcron.schedule.zones import zone\n"
        "for each in (early, zone('Europe/Berlin')): print(datetime(2027, 1, 1, tzinfo=each).utcoffset())"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    )
    assert shown.stdout.split() == ["9:00:00", "1:00:00"]


def test_the_version_is_written_as_iana_does() -> None:
    assert tzdata_version()[:4].isdigit()
    assert tzdata_version()[4:].isalpha()


def test_the_fingerprint_changes_with_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fingerprint = tzdata_fingerprint()
    assert len(fingerprint) == 12
    assert int(fingerprint, 16) >= 0
    other = tmp_path / "zoneinfo"
    for name in zone_names():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_bytes((zones._WHEEL / "zoneinfo" / name).read_bytes())
    monkeypatch.setattr(zones, "_WHEEL", tmp_path)
    assert tzdata_fingerprint.__wrapped__() == fingerprint
    (other / "UTC").write_bytes((other / "Asia/Tokyo").read_bytes())
    assert tzdata_fingerprint.__wrapped__() != fingerprint


def test_the_default_is_the_configured_zone_or_an_error() -> None:
    assert default_zone("Asia/Tokyo") == "Asia/Tokyo"
    with pytest.raises(ZoneError):
        default_zone("Nowhere/Land")


@pytest.mark.parametrize(
    ("variable", "file", "link", "expected"),
    [
        ("Asia/Tokyo", "Europe/Paris", "Europe/Rome", "Asia/Tokyo"),
        (":Asia/Tokyo", "", "", "Asia/Tokyo"),
        ("CET-1CEST", "Europe/Paris\n", "", "Europe/Paris"),
        ("", "Nowhere\n", "/usr/share/zoneinfo/Europe/Rome", "Europe/Rome"),
        ("", "", "../usr/share/zoneinfo/posix/Europe/Rome", "Europe/Rome"),
        ("", "", "/etc/my-own-zone", "UTC"),
        ("localtime", "Factory", "", "UTC"),
    ],
)
def test_without_one_it_is_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, file: str, link: str, expected: str
) -> None:
    monkeypatch.setenv("TZ", variable)
    monkeypatch.setattr(zones, "TIMEZONE_FILE", tmp_path / "timezone")
    monkeypatch.setattr(zones, "LOCALTIME_LINK", tmp_path / "localtime")
    if file:
        (tmp_path / "timezone").write_text(file)
    if link:
        (tmp_path / "localtime").symlink_to(link)
    assert default_zone(None) == expected


def test_a_zone_says_the_same_as_its_alias() -> None:
    instant = datetime(2027, 7, 1, tzinfo=UTC)
    assert instant.astimezone(zone("Asia/Calcutta")) == instant.astimezone(zone("Asia/Kolkata"))
