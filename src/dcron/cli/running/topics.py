"""The pages of `dcron help TOPIC`, which the man page has, too. A wheel has no docs/."""

TOPICS = {
    "schedules": r"""
A schedule says when a task runs. `dcron preview SCHEDULE` shows its next times.

  '30 2 * * mon-fri'       minute, hour, day of month, month, day of the week
  '*/10 30 2 * * *'        six fields: the first one is the second
  @hourly  @daily  @weekly  @monthly  @yearly  @midnight
  @reboot                  when a node starts
  '@every 5m'              at a fixed rate
  '@delay 5m'              this long after the end of the run before
  '@at 2027-01-01T09:00'   once; `dcron at` is shorter
  '@on EVENT'              when `dcron emit EVENT` sends the event
  '@after A,B'             when these tasks have succeeded
  'RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17'   a rule of iCalendar
  '0 9 * * mon | 0 17 * * fri'                both

A field is `*`, a value, a range `9-17`, a step `*/15` or `9-17/2`, or a list of
these with commas. Months and days have names: `jan`, `mon`. Sunday is 0 or 7.
If day of month and day of the week are both given, either of them is enough.

  L       day of month: the last one         5L    weekday: the last Friday
  15W     the working day next to the 15th   1#2   the second Monday
  H H/15  a value that the task's name gives, so that tasks spread out

Put a schedule in quotes: the shell would replace `*`.

The zone is that of --tz, else that of `dcron config get timezone`, else that of
the machine. At a change of the clocks a fixed time runs exactly once: --gap and
--fold say when.

  dcron add -z Europe/Berlin '30 2 * * *' backup --full
  dcron preview -z Europe/Berlin '30 2 * * *'
  dcron preview '@every 90m'
""",
    "times": r"""
Times of options are in your zone, those of `add` and `at` in that of the task.

To come (--until, --from of a freeze, `at`):
  06:00                    the next one
  tomorrow 09:00           also: today 09:00, mon 09:00, next monday
  2027-01-01 09:00         also: 2027-01-01T09:00+02:00, 2027-01-01T08:00Z
  +1h, 1h                  from now on

Past (--since, --from and --until of `backfill`, --at, `why NAME TIME`):
  2h, 2h ago               before now
  09:00, today, yesterday 09:00
  2026-11-20 09:00

A span is --from TIME --until TIME. --since TIME is from then until now.

A duration is 90s, 5m, 1h30m, 2d or 1w; a day is 24 hours. `none` is no limit.

  dcron runs --since 2h
  dcron stats --since yesterday
  dcron freeze --until 06:00
""",
    "names": r"""
Verbs that read (view, runs, logs, why ...) take a name, or a beginning of it
that no other task has. Verbs that change or start something (rm, run, pause,
set ...) take whole names; on a terminal they ask about a beginning.

  dcron view pay               shows the task payroll
  dcron pause backup report    several names: all of them, or none

-l chooses tasks by their labels. Verbs that change something show the tasks and
ask; --dry-run and the verbs that read only show them.

  dcron list -l team=shop,tier!=gold
  dcron pause -l team=shop

A run is given by its number, as `dcron runs` shows it: no new task has a number
for a name. A node is given by its name or its ID, as `dcron nodes` shows it.

A name has 1 to 100 characters of A-Z a-z 0-9 . _ - and begins with none of
`.` and `-`.
""",
    "options": r"""
These options mean the same in every verb that has them:

  -c, --context NAME   a crontab of your config file (`dcron help contexts`)
  --db URL             a database: sqlite:////srv/dcron.db, postgresql://HOST/DB
  -h, --help           the help of a verb
  -o, --output FORMAT  table, wide, json, jsonl, csv or name; --json is -o json
                       (`dcron help json`)
  -m, --reason TEXT    why you do it: `dcron history` shows it, and a pause, a
                       freeze, a hold and an acknowledgement keep it
  -y, --yes            answer the question with yes (`dcron help consent`)
  --confirm NAME       the name of the protected context to change
  -l, --selector TEXT  tasks with these labels (`dcron help names`)
  -n                   a number (--count) in verbs that list, a name (--name) in
                       those that add a task
  -z, --tz ZONE        time zone of a schedule, such as Europe/Berlin
  -e, --env NAME=VALUE a variable of the command
  -F, --file FILE      a crontab file, a directory of them, or - for stdin

Options may come before or behind names. In `add` and `at` they come before the
command, because its words belong to it; `--` ends the options of dcron.

  dcron add -n disk '*/5 * * * *' 'df | log'
  dcron set backup --timeout 2h -m 'it grew'
""",
    "consent": r"""
dcron asks before an act that `dcron undo` cannot take back, before one that
concerns more things than you typed, and before one that concerns the whole
crontab. It says what would be done. Enter means no. From six things on you type
their number.

Without a terminal it asks nothing: it refuses (exit code 1) and prints the
option that agrees: -y (--yes; -f is its old spelling). --dry-run shows what
would be done.

In a protected context (`protected = true` in the config file) dcron asks before
every act that starts, changes or stops something, for the name of the context.
Only --confirm NAME agrees there; another name is refused.

`dcron undo NAME` takes the last change of a task back. A run that has started
cannot be taken back.
""",
    "json": r"""
Verbs that read, and most that change something, print JSON with --json. With
-o FORMAT they print table, wide, json, jsonl (an object a line), csv or name.

  dcron list -o json | jq -r '.[] | select(.failed) | .name'
  dcron runs -n 1000 -o jsonl | jq -c '[.id, .state, .wait]'
  dcron list -l team=shop -o name

- A verb that lists prints an array, also of one thing and of none. A verb that
  takes names prints an object for one name, an array for several and for -l.
- --follow prints an object a line. Its "type" is "output", or "run" at the end.
- A time is UTC in whole seconds, such as 2026-11-23T08:26:00Z (jq: fromdate).
  A duration is in seconds: a whole number, or one with at most three decimals.
- A missing value is null. Only the keys of a few parts may be absent.
- from, until     a span of time        X_id     the number of a row, the id of
- by, VERBed_by   who did it                     a node; X is the row, the name
- reason          why a person did it   X_count  how many; a plural is an array
- message         a sentence            name     of this; of another: task, node
- Until 0.3 each key that has a new name keeps the old one beside it.
  DCRON_JSON=2 in the environment leaves the old ones out.
- Keys may be added. A script must not fail because of a new one.
- csv has the keys with a single value. Its texts are safe for terminals.
- Errors and warnings are text on stderr. The exit code says whether it worked.

`dcron help json DOCUMENT` lists the keys of one:
""",
    "exit-codes": r"""
  0    done; a list, also an empty one
  1    refused, failed, answered no, or something was left alone. lint, doctor,
       diff, alerts: there is something. forecast --quiet: there is no such time
  2    the command line, a schedule, a time or a file cannot be read
  3    the database cannot be used
  4    there is no such task, run, node or calendar
  5    another user changed it first
  124  the wait is over (--wait-timeout), and the run is not
  130  interrupted by Ctrl-C

run --wait, run --follow and logs -f end as the command did: with its exit code,
or with 128 and the number of the signal that ended it.
""",
    "contexts": r"""
A context is one of several crontabs, with a name in the config file:
~/.config/dcron/config.toml, or /etc/dcron/config.toml for all users.

  default_context = "staging"

  [context.staging]
  database = "postgresql://cron@staging.example.org/cron"

  [context.prod]
  database = "postgresql://cron@db.example.org/cron"
  protected = true

The first of these counts: --db, --context, $DCRON_DB, $DCRON_CONTEXT,
`default_context`, `database`, a file in your data directory. `dcron info` names
the one in use. No verb changes it for later commands.

A protected context asks for its name before anything is changed there
(`dcron help consent`).

  dcron -c prod list
""",
}
"""The text of each page: at most 40 lines of 80 columns."""
