"""Send by apprise, which knows some 120 services. It is an extra: `pip install 'dcrontab[notify]'`."""

import logging
from typing import Any

from dcron.notifying.message import Message, SendError
from dcron.notifying.senders.channel import Channel

MISSING = "apprise is not installed: pip install 'dcrontab[notify]'"


class _LastWarning(logging.Handler):
    """Keeps the last warning: apprise itself returns only whether it was successful."""

    text = "the service did not accept it"

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.text = record.getMessage()


def send(channel: Channel, message: Message) -> None:
    """Send to all services of the channel. Raises SendError."""
    try:
        import apprise
    except ImportError:
        raise SendError(MISSING) from None
    last = _LastWarning()
    logging.getLogger("apprise").addHandler(last)
    # Plugins in a home directory or named by an environment variable are code that the owner never chose.
    services: Any = apprise.Apprise(asset=apprise.AppriseAsset(plugin_paths=[], secure_logging=True))
    urls = channel.options["url"]
    for url in urls if isinstance(urls, list) else [urls]:
        if not services.add(url):
            raise SendError("apprise does not know the URL: see its documentation")
    if not services.notify(title=message.subject, body=message.text, body_format=apprise.NotifyFormat.TEXT):
        raise SendError(f"apprise: {last.text}")
