"""The verbs of `dcron`: the one source of the help, the man page and the order of completion."""

from typing import NamedTuple

GROUPS = {
    "everyday": "",
    "tasks": "at (run once)  edit  resume  preview (next times)  emit  calendar",
    "running": "retry  backfill (missed times)  dead (gave up)  queue (limits)",
    "figures": "stats  report  forecast (the load to come)",
    "watching": "doctor (is all well?)  ack  channel (who is notified)  monitor",
    "files": "import (from cron)  export  lint  diff  apply (crontab in git)",
    "servers": "agent  nodes  policy  drain, undrain (one)  freeze, thaw (all)",
    "database": "db  config  info  undo  prune  hold, unhold  dump, restore (backup)",
    "screen": "tui  demo",
}
"""The groups of verbs, and their lines on the first screen. The everyday verbs have a line each."""


class Verb(NamedTuple):
    """A verb: its module is `commands/VERB.py`, and the module's `command` is what it does."""

    group: str
    sentence: str
    """The first sentence of its help."""


VERBS = {
    "add": Verb("everyday", "Add a task: a schedule and a command."),
    "list": Verb("everyday", "List the tasks: next runs, last results."),
    "view": Verb("everyday", "Show everything about a task, or about a run."),
    "set": Verb("everyday", "Change options of tasks; `edit` opens them as text."),
    "rm": Verb("everyday", "Remove tasks."),
    "pause": Verb("everyday", "Start no more runs of tasks, until `resume` or --until."),
    "run": Verb("everyday", "Run tasks now; --wait and --follow stay until the end."),
    "runs": Verb("everyday", "List runs: waiting, active and past ones."),
    "logs": Verb("everyday", "Print what a run wrote; -f follows it."),
    "cancel": Verb("everyday", "Stop runs; `retry` runs failed ones again."),
    "why": Verb("everyday", "Explain why a task ran, did not run, or will not run."),
    "alerts": Verb("everyday", "List what is wrong now; `ack` says that you know."),
    "history": Verb("everyday", "Show who changed what, when and why; `undo` takes it back."),
    "at": Verb("tasks", "Run a command once, at a time or after a delay."),
    "edit": Verb("tasks", "Edit the crontab, or some of its tasks, as text in your editor."),
    "resume": Verb("tasks", "End the pauses of tasks."),
    "preview": Verb("tasks", "Show when a schedule runs, as the agents compute it."),
    "emit": Verb("tasks", "Send an event: run every task whose schedule is '@on EVENT'."),
    "calendar": Verb("tasks", "Manage calendars: named sets of dates for --except and --only."),
    "retry": Verb("running", "Retry failed, lost, skipped or cancelled runs now."),
    "backfill": Verb("running", "Run a task for past occurrences that never succeeded."),
    "dead": Verb("running", "List dead letters: failed and lost runs without further attempts."),
    "queue": Verb("running", "Limit how many runs of a queue are active at once, over all nodes."),
    "stats": Verb("figures", "Show success rates, durations, lateness and hours of work."),
    "report": Verb("figures", "Report what failed, was skipped, late, lost or changed."),
    "forecast": Verb("figures", "Forecast which runs will wait or be skipped, and what would help."),
    "doctor": Verb("watching", "Look for what needs an operator's attention."),
    "ack": Verb("watching", "Acknowledge alerts: send no more reminders of them."),
    "channel": Verb("watching", "List the channels that notifications are sent by, and test one."),
    "monitor": Verb("watching", "Serve the figures of the whole crontab to Prometheus, at /cluster."),
    "import": Verb("files", "Import a crontab file."),
    "export": Verb("files", "Print the crontab as a file: a crontab, JSON or TOML."),
    "lint": Verb("files", "Warn of valid tasks that are probably mistakes."),
    "diff": Verb("files", "Show what `apply` would change."),
    "apply": Verb("files", "Make the tasks of a source what its files say."),
    "agent": Verb("servers", "Run due tasks on this server until stopped."),
    "nodes": Verb("servers", "List the running agents, and those that ended within the last day."),
    "policy": Verb("servers", "Check and explain which tasks the policy of a server accepts."),
    "drain": Verb("servers", "Stop a node from claiming runs; its active runs continue."),
    "undrain": Verb("servers", "Let a drained node claim runs again."),
    "freeze": Verb("servers", "Start no run by itself, on any node, until the crontab is thawed."),
    "thaw": Verb("servers", "End a freeze: runs start by themselves again."),
    "db": Verb("database", "Prepare or upgrade the database, or print its URL."),
    "config": Verb("database", "Manage the settings that all users of the crontab share."),
    "info": Verb("database", "Print versions, the database, and where the settings come from."),
    "undo": Verb("database", "Undo the last change of a task, another change, or a batch."),
    "prune": Verb("database", "Delete history that is older than settings and tasks say."),
    "hold": Verb("database", "Keep a run, or all runs of a task, from being pruned."),
    "unhold": Verb("database", "Let a run, or all runs of a task, be pruned again."),
    "dump": Verb("database", "Write the whole crontab, without its history, to one file."),
    "restore": Verb("database", "Restore a crontab that `dcron dump` wrote."),
    "tui": Verb("screen", "Open the full-screen view of tasks, runs and nodes."),
    "demo": Verb("screen", "Show several agents that share a crontab."),
}
"""The verbs in the order of the first screen."""
_BEFORE = """\
Usage: dcron [-c CONTEXT] VERB ...

  One crontab that many servers share, in SQLite or Postgres.

  dcron add '30 2 * * *' backup --full   add a task
  dcron agent                            run due tasks, on each server
  dcron                                  see and control them on a screen

Everyday:
"""
_AFTER = """
  -c, --context NAME   a crontab of your config file, such as prod; or --db URL
  -h, --help           options and examples of a verb: dcron run --help

`dcron help all` lists every verb. Other pages: `dcron help schedules`, times,
names, options, consent, json, exit-codes, contexts.
"""


def first_screen() -> str:
    """Return what `dcron --help` prints."""
    lines = [f"  {group:<10}{words}\n" for group, words in GROUPS.items() if words]
    more = "\nMore, by what it is about (`dcron help servers` explains one line of these):\n"
    return f"{_BEFORE}{_listed('everyday', 9)}{more}{''.join(lines)}{_AFTER}"


def group_page(group: str) -> str:
    """Return the verbs of a group with their sentences."""
    return f"{group.capitalize()}:\n{_listed(group, 11)}\n`dcron VERB --help` shows options and examples.\n"


def every_verb() -> str:
    """Return all verbs with their sentences, by group."""
    return "\n".join(f"{group.capitalize()}:\n{_listed(group, 11)}" for group in GROUPS)


def _listed(group: str, width: int) -> str:
    verbs = {name: verb for name, verb in VERBS.items() if verb.group == group}
    return "".join(f"  {name:<{width}}{verb.sentence}\n" for name, verb in verbs.items())
