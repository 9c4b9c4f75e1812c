"""Freezing and thawing the crontab on the screen."""

import pytest

from dcron.services.freezes import Freezes
from tests.support.tui import Stage


@pytest.mark.slow
async def test_the_crontab_is_frozen_and_thawed(stage: Stage) -> None:
    async with stage.screen("backup") as screen:
        await screen.press("colon")
        await screen.enter("freeze", shows="nothing starts by itself, on any node")
        await screen.type("upgrade")
        await screen.press("tab")
        await screen.enter("+2h", shows="frozen by bob@desk until")
        await screen.shows("upgrade  (:thaw ends it)")
        await screen.press("colon")
        await screen.enter("thaw", shows="thaw the crontab?")
        await screen.press("y")
        await screen.shows_not("(:thaw ends it)")
        assert Freezes(stage.crontab).active() is None
