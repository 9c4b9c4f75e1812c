"""Send messages and pings. Messages go to a child process, `python -m dcron.notifying`, with a time limit.

So a service that hangs, or a plugin that crashes or leaks memory, does not concern the process that sends.
The child knows no database. It gets the channel and the messages as JSON on stdin.
"""

from dcron.notifying.client import Delivery, deliver
from dcron.notifying.message import Message, Outcome, Result

__all__ = ["Delivery", "Message", "Outcome", "Result", "deliver"]
