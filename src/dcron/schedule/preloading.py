"""Load what schedules need before it is needed: an agent imports nothing when a run is due."""

from dcron.schedule.croniter_walk import load_croniter


def preload() -> None:
    """Import the libraries that only some schedules need, and that the command line loads late."""
    from hashlib import sha256

    import dateutil.rrule  # type: ignore[import-untyped]  # noqa: F401

    load_croniter()
    sha256()
