"""The command palette: all commands, searched by what they do."""

from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from dcron.tui.frame.commands import COMMANDS, Command, default_argument
from dcron.tui.host import Host

FIRST = 100.0
"""What a command gains over others whose help matches, if its own word begins with what is typed."""


class Commands(Provider):
    """All commands. A command that needs an argument opens the prompt."""

    async def discover(self) -> Hits:
        """Yield all commands."""
        for command in COMMANDS.values():
            yield DiscoveryHit(_shown(command), lambda command=command: self._do(command), help=command.help)

    async def search(self, query: str) -> Hits:
        """Yield the commands that match."""
        matcher = self.matcher(query)
        for command in COMMANDS.values():
            score = matcher.match(f"{command.word} {command.help}")
            if command.word.startswith(query.strip().lower()):
                score += FIRST  # `view` is the command, not one that shows a view
            if score > 0:
                yield Hit(
                    score, _shown(command), lambda command=command: self._do(command), help=command.help
                )

    async def _do(self, command: Command) -> None:
        host = cast("Host", self.app)
        if command.takes and not command.takes.startswith("["):
            host.start_command(f"{command.word} {default_argument(host, command)}")
        else:
            command.run(host, "")


def _shown(command: Command) -> str:
    return f"{command.word} {command.takes}".rstrip().replace("[", "(").replace("]", ")")
