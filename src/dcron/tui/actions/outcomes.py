"""Report what acts have done: toasts with command lines, and a question after each conflict."""

from collections.abc import Sequence
from dataclasses import replace

from dcron.errors import Conflict
from dcron.tui.host import Host
from dcron.tui.reads.acts import Outcome

TOASTS = 3
COMMANDS_SHARE = 4
"""A toast shows at most one command line per this many lines of the screen."""


async def report(host: Host, outcomes: Sequence[Outcome], height: int) -> None:
    """Report the outcomes on a screen of this height.

    Ask about conflicts first: a dialog removes the toasts.
    """
    done = [outcome for outcome in outcomes if outcome.error is None]
    failed = [outcome for outcome in outcomes if outcome.error]
    shown = failed[:TOASTS]
    for outcome in shown:
        if isinstance(outcome.error, Conflict) and outcome.act.again:
            await _ask_again(host, outcome)
    for outcome in shown:
        if not isinstance(outcome.error, Conflict):
            host.report(f"{outcome.act.title}: {outcome.message}", error=True)
    if len(failed) > TOASTS:
        host.report(f"and {len(failed) - TOASTS:,} more were not done", error=True)
    if done:
        host.report(_done_text(done, max(1, height // COMMANDS_SHARE)))


def _done_text(done: Sequence[Outcome], commands: int) -> str:
    """Return what was done, and at most this many command lines that do the same."""
    lines = [done[0].message + (f", and {len(done) - 1:,} more" if len(done) > 1 else "")]
    lines += [outcome.act.command for outcome in done[:commands]]
    more = len(done) - commands
    return "\n".join([*lines, f"... and {more:,} more"] if more > 0 else lines)


async def _ask_again(host: Host, outcome: Outcome) -> None:
    """Show what another person changed first, and offer to do the act anyway."""
    from dcron.tui.dialogs.modals import ConflictDialog
    from dcron.tui.forms.dialog_text import act_conflict, content

    act, theirs = outcome.act, outcome.theirs
    assert act.again
    changed = content(act_conflict(act.task, theirs, host.zone) if act.task and theirs else ())
    again = replace(act, do=act.again)
    await host.push_screen(
        ConflictDialog(outcome.message, changed, act.command),
        lambda yes: host.act([again]) if yes else None,
    )
