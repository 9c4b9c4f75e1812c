"""The command palette: the entries of the command line, by what they do."""

from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from dcron.tui.commands import COMMANDS, Command

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp


class Commands(Provider):
    """Every command; one that needs a word more opens the command line with its own."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for command in COMMANDS.values():
            yield DiscoveryHit(_shown(command), lambda command=command: self._do(command), help=command.told)

    async def search(self, query: str) -> Hits:
        """Those that what was typed may mean."""
        matcher = self.matcher(query)
        for command in COMMANDS.values():
            score = matcher.match(f"{command.word} {command.told}")
            if score > 0:
                yield Hit(
                    score, _shown(command), lambda command=command: self._do(command), help=command.told
                )

    async def _do(self, command: Command) -> None:
        app = cast("DcronApp", self.app)
        if command.takes and not command.takes.startswith("["):
            app.main.action_command(f"{command.word} ")
        else:
            command.run(app, "")


def _shown(command: Command) -> str:
    return f"{command.word} {command.takes}".rstrip().replace("[", "(").replace("]", ")")
