"""Time zones from the tzdata wheel alone, so that every node uses the same ones."""

import os
import re
import zoneinfo
from datetime import tzinfo
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from dcron.errors import ZoneError
from dcron.values.similar import similar

# Python prefers the system's database: two servers with 2025b and 2026f would run a task in
# Vancouver an hour apart. So the wheel is the only source. A path to it is read faster than the package.
_WHEEL = Path(tzdata.__file__).parent
zoneinfo.reset_tzpath(to=(str(_WHEEL / "zoneinfo"),))
ZoneInfo.clear_cache()

TIMEZONE_FILE = Path("/etc/timezone")
LOCALTIME_LINK = Path("/etc/localtime")
_NO_PLACE = "Factory"  # in the list, but it means "the clock was never set up"


@cache
def zone_names() -> frozenset[str]:
    """Return every zone name a task may use: the wheel's, without `localtime`, `posix/…`, `right/…`."""
    names = (_WHEEL / "zones").read_text(encoding="ascii").split()
    return frozenset(names) - {_NO_PLACE}


def zone(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name, spelled exactly. Raises ZoneError."""
    if name not in zone_names():
        raise ZoneError(_abbreviation(name) or f"{name[:60]!r} is not a time zone{_hint(name)}")
    return ZoneInfo(name)


def named_zone(here: tzinfo) -> ZoneInfo:
    """Return this zone if it is one of the tz database, else UTC."""
    return here if isinstance(here, ZoneInfo) else zone("UTC")


_SUMMER = {
    **{"BST": "Europe/London", "WEST": "Europe/Lisbon", "CEST": "Europe/Berlin", "EEST": "Europe/Helsinki"},
    **{"ADT": "America/Halifax", "EDT": "America/New_York", "CDT": "America/Chicago"},
    **{"MDT": "America/Denver", "PDT": "America/Los_Angeles", "AKDT": "America/Anchorage"},
    **{"AEDT": "Australia/Sydney", "NZDT": "Pacific/Auckland"},
}
"""Abbreviations of summer times, and a place that has each."""


def _abbreviation(name: str) -> str | None:
    """Return what is wrong with an abbreviation of a time; another one is never suggested by its letters."""
    if place := _SUMMER.get(name.upper()):
        return f"{name!r} is a time of year, not a zone; write a place: {place}"
    if re.fullmatch(r"[A-Z]{2,5}", name):
        return f"{name!r} is not a time zone; an abbreviation can mean several: write a place: Europe/Berlin"
    return None


def _hint(name: str) -> str:
    """Return the name that was probably meant, as the end of a sentence."""
    typed = name[:60].lower().replace(" ", "_")
    names = {known.lower(): known for known in zone_names()}
    cities = {known.rpartition("/")[2].lower(): known for known in sorted(zone_names(), reverse=True)}
    close = similar(typed, names) or similar(typed, cities, cutoff=0.8)
    if not close:
        return "; names look like Europe/Berlin or UTC"
    return f"; did you mean {names.get(close[0]) or cities[close[0]]}?"


def tzdata_version() -> str:
    """Return the version of the tz database, such as `2026f`."""
    return str(tzdata.IANA_VERSION)


@cache
def tzdata_fingerprint() -> str:
    """Return twelve hex digits over the name and the bytes of every zone.

    Two nodes with equal digits compute equal times, whatever their versions are called. The first call
    reads 598 small files in about 15 ms.
    """
    from hashlib import sha256

    digest = sha256()
    for name in sorted(zone_names()):
        digest.update(name.encode() + b"\0" + (_WHEEL / "zoneinfo" / name).read_bytes())
    return digest.hexdigest()[:12]


def default_zone(configured: str | None) -> str:
    """Return the zone of a new task: the configured one, else this machine's, else UTC.

    Raises: ZoneError if the configured name does not exist. A machine without a usable name gives UTC.
    """
    if configured:
        return configured_zone(configured)
    own = _from_environment()
    return own if own in zone_names() else machine_zone() or "UTC"


def configured_zone(name: str) -> str:
    """Return the zone that a config file names. Raises ZoneError, whose message names the file's key."""
    try:
        return zone(name).key
    except ZoneError as error:
        raise ZoneError(f"timezone in the config file: {error}") from None


def machine_zone() -> str | None:
    """Return the name of the zone this machine is set to, ignoring $TZ; None if it has no usable one."""
    found = (_from_timezone_file(), _from_localtime_link())
    return next((name for name in found if name in zone_names()), None)


def _from_environment() -> str:
    """Return the zone in `TZ=Europe/Berlin`, also in its POSIX form with a leading colon."""
    return os.environ.get("TZ", "").removeprefix(":")


def _from_timezone_file() -> str:
    """Return the name in Debian's /etc/timezone."""
    try:
        return TIMEZONE_FILE.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _from_localtime_link() -> str:
    """Return the name at the end of a link such as `/usr/share/zoneinfo/Europe/Berlin`."""
    try:
        target = str(LOCALTIME_LINK.readlink())
    except OSError:
        return ""
    return re.sub(r"^.*?/zoneinfo/(?:posix/|right/)?", "", target)
