"""What the doctor finds, for people and for programs: each finding has a code, and here are its texts."""

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from dcron.presentation import humanize
from dcron.values.quantities import format_size

_SHOWN = 3
"""Names in one sentence."""

_TEXTS = """
no-agent
  no agent is running
  {active:task} cannot start
  start `dcron agent` on at least one server
frozen
  the crontab is {reason}
  nothing starts by itself
  `dcron thaw {freeze}` ends the freeze
unserved
  no running agent can take the next runs of these tasks: {subjects}
  they do not run
  `dcron why {subjects[0]}` says what it needs; `dcron nodes` shows what the agents have
policy-not-in-force
  the changed policy of {name} is not in force: {error}
  the one before decides what runs there
  `dcron policy check` on {name} shows all that is wrong
root-without-policy
  the agent {name} runs as root and has no policy
  {since} it refuses these tasks, which run as root: {tasks}
  `dcron policy suggest` shows a policy for the tasks there are; one line accepts all:  {line}
policy-refuses
  no running agent accepts these tasks: {subjects}; {subjects[0]}: {why}
  their runs fail, or wait
  `dcron policy explain {subjects[0]} --node NODE` shows each rule
node-late
  these nodes have not renewed their leases in time: {names}
  their runs count as active and hold up others of the same task
  any running agent declares them dead within a minute: start one if none runs
drained
  these nodes are drained and run nothing: {names}
  their slots are unused
  `dcron undrain {names[0]}` lets one work again, or stop its agent
clock-skew
  clocks differ from the database's: {offsets}
  tasks still start by the database's clock, but commands there go by the wrong one
  set the clocks by NTP: timedatectl set-ntp true
tzdata-differs
  nodes have different time zone data: {versions}
  where the two disagree, the next run of a task depends on the node that plans it
  upgrade the agents that are behind: pip install --upgrade tzdata, or the system's tzdata
version-differs
  nodes run different releases of dcron: {versions}
  what only the newer release can do happens on some nodes and not on others
  upgrade the agents that are behind
lease
  nodes could not renew their leases of {lease:span} for up to {longest:span} ({node}, until
    {ended_at:%Y-%m-%d %H:%M} UTC; {outages:outage} in the last 90 days)
  {effect}
  {advice}
no-channel
  {problem} {subjects}
  what {users} should send waits
  {advice}
undeliverable
  the channel {subjects} has given up messages since {since:%Y-%m-%dT%H:%M:%SZ}
  what it could not send within a day is not sent any more
  `dcron channel list` shows its last error; `dcron channel test {subjects}` tries it
maintenance-failed
  the last round of these maintenance jobs failed: {jobs}
  old history stays until a round succeeds
  remove the cause; the agents' logs say more
maintenance-behind
  these maintenance jobs have been due for more than a day: {subjects}
  old history stays, and the database grows
  start an agent of this release; `dcron prune` does the work by hand
watch-late
  the maintenance job watch has been due for {seconds:span}
  late and long runs and lost nodes open no alerts, and reminders wait
  read the agents' logs, and restart the agents
retention-behind
  runs that should have been pruned two days ago are still there; the oldest ended {days} days ago
  the database grows
  start an agent, or type `dcron prune`; `dcron info` shows the last round
suspended
  the next run of {suspended:task} cannot be computed
  they do not run
  `dcron view NAME` says why; `dcron lint` names the tasks
dead-letters
  {letters:failed or lost run} will not be tried again
  their work has not been done
  `dcron dead` lists them; `dcron retry RUN` runs one again, `dcron dead dismiss RUN` accepts it
never-succeeded
  these tasks have failed and not succeeded lately: {subjects}
  their work has not been done
  `dcron logs {subjects[0]}` shows the last output
never-run
  these tasks have never started, and their time has come since: {subjects}
  their work has not been done
  `dcron why {subjects[0]}` says what they wait for
crowd
  {starts:,} runs start at {minute:%Y-%m-%d %H:%M} UTC, for {slots:,} slots
  by their last durations, the last one starts about {wait:span} late
  `dcron forecast` shows the waits, and by how much --jitter or more --slots help
overlaps
  the runs of these tasks take longer than the time between two: {subjects}
  occurrences are skipped, or runs queue up behind each other
  `dcron stats {subjects[0]}` shows durations; run them less often, or allow --max-running 2
drifted
  these tasks were changed by hand since their source was applied: {subjects}
  files that say something else cannot be applied
  write the changes into the files, which `dcron diff` compares, or use `dcron apply --overwrite`
journal
  {subjects} uses a write-ahead log, and SQLite {library} has a bug there
  several agents that write at once can damage the file
  stop all programs that use the file, also the tool that set it: the next dcron switches it off
network-fs
  {subjects} is on a network file system ({file_system})
  its locks cannot be trusted, so a run can start twice and the file can be damaged
  move the crontab to Postgres: `dcron dump` here, `dcron restore` there
file-mode
  other accounts can change {subjects}: {others}
  who can change the crontab can run commands as the accounts of all its agents
  let its owner alone write it: chmod 600 {subjects}
disk
  {free:size} are free beside {subjects}, which has {size:size}
  when the disk is full, no run can start
  make room, keep less history (`dcron config list`), or `dcron prune --compact`
integrity
  {subjects} is damaged: {damage}
  statements that reach the damaged part fail
  restore a backup; `dcron dump` may still save the crontab without its history
standby
  this server is a standby
  it accepts no changes, so no agent that uses it can work
  give the URL of the primary server, or of both: ?target_session_attrs=read-write
durability
  the server runs with fsync or full_page_writes off
  after a power cut, runs that were started can start again, and the database can be damaged
  set fsync = on and full_page_writes = on in postgresql.conf
old-transaction
  a transaction has been open for {seconds:span}
  Postgres cannot clean up behind it, and claims become slower
  find it: SELECT pid, usename, query FROM pg_stat_activity ORDER BY xact_start LIMIT 1
autovacuum
  autovacuum is off
  tables and indexes grow without end, and claims become slower
  set autovacuum = on in postgresql.conf
autovacuum/bloated
  more than a fifth of these tables is dead rows: {subjects}
  claims become slower
  look for an old transaction; then VACUUM ANALYZE {subjects[0]}
connections
  {used} of {most} connections are in use
  when none is left, agents cannot renew their leases, and lose their runs
  raise max_connections, or put a pooler in front
wraparound
  the oldest transaction id is {age:,} transactions old
  at about two billion the server accepts no changes
  end old transactions and replication slots, then VACUUM FREEZE
not-postgres
  the server {problem}
  a run can start twice, or limits can be exceeded
  move the crontab: `dcron dump` here, `dcron restore` there
pooler
  the database is behind a connection pooler (PgBouncer or the like)
  dcron keeps nothing in sessions, looks every second instead of listening, and plans each statement
  give agents a direct address; or say in the URL what the pool does: ?pooler=transaction is as it is now;
    ?pooler=session is faster, but right only if the pool keeps a session for each client
unverified-server
  the identity of the server is not verified
  another machine that answers in its place gets the password and can run commands on every node
  leave out sslmode, or write ?sslmode=verify-full
open-schema
  in schema {schema}, the role {distrusted}
  it can so run code with the rights of the schema's users
  as its owner, REVOKE CREATE ON SCHEMA {schema} FROM it, and drop what it made
schema
  {problem}
  this release of dcron cannot use it
  {advice}
spool-not-kept
  the spool {subjects} is on {kind}, {forgets}, and these tasks have `keep` for when their node is cut off:
    {tasks}
  after that, no agent here can say that their runs are over: they hold up their tasks until their timeout,
    or until a person gives them up
  put the spool on a disk, by $DCRON_SPOOL or `spool` of [agent] in the config file; in a container on a
    volume
unit
  {subjects} has {found}
  {effect}
  write {wanted} into its section [Service], then systemctl daemon-reload
unit/watchdog
  {subjects} has no WatchdogSec
  an agent that hangs is not restarted
  write WatchdogSec=180 into its section [Service], then systemctl daemon-reload
"""
"""By code, and by a form of it: the problem, its effect, and what to type or to do."""


class Finding:
    """Something that needs an operator's attention."""

    def __init__(self, code: str, subjects: Sequence[str] = (), *, form: str = "", **words: Any) -> None:
        """`code` never changes (docs/operations.md). `subjects` are tasks, nodes, tables or files."""
        self.code, self.subjects = code, subjects
        texts = TEXTS[f"{code}/{form}" if form else code]
        values = {"subjects": subjects, **words}
        self.problem, self.effect, self.advice = (_FORMATTER.vformat(text, (), values) for text in texts)

    @property
    def sentence(self) -> str:
        """Return the finding as one line."""
        return f"{self.problem}; {self.effect}; {self.advice}"


class _Values(Formatter):
    """Formats what stands in a text: numbers with a noun or as a `span` or a `size`, the first of many."""

    def format_field(self, value: Any, spec: str) -> str:
        """Return the value as the text has it."""
        if spec in _FORMATS:
            return _FORMATS[spec](value)
        if spec[:1].isalpha():
            return humanize.plural(value, spec)
        return named(value) if isinstance(value, list | tuple) else format(value, spec)


_FORMATTER = _Values()
_FORMATS: Mapping[str, Callable[[Any], str]] = {"span": humanize.span, "size": format_size}


def named(names: Sequence[str]) -> str:
    """Return `a, b, c and 4 more`."""
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def _read(block: str) -> dict[str, list[str]]:
    """Return the texts of each code. A line that is indented further goes on with the one before it."""
    found: dict[str, list[str]] = {}
    texts: list[str] = []
    for line in block.strip().replace("\n    ", " ").splitlines():
        if line.startswith("  "):
            texts.append(line.strip())
        else:
            texts = found[line] = []
    return found


TEXTS = _read(_TEXTS)
