"""The fields of a task, each declared once.

The command line, `#dcron:` directives, the TUI's form, the JSON, validation, sentences about a task and the
table in docs/cli.md follow from these declarations. Names, types and defaults are those of Definition in
model.py. docs/contributing.md lists the files that a new field touches.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import get_args

from dcron.fields import channel_kinds, collection_kinds, kinds, name_rules
from dcron.fields.expectations import EXPECT
from dcron.fields.field import Field
from dcron.fields.kinds import SHORTEST
from dcron.fields.retention import KEEP
from dcron.model import (
    DEFINITION_FIELDS,
    LONGEST_DURATION,
    LONGEST_JITTER,
    MOST_BACKOFF_FACTOR,
    MOST_NOTIFY_AFTER,
    MOST_TRIES,
    Definition,
)
from dcron.values.quantities import (
    format_amount,
    format_limit,
    parse_limit,
    parse_need,
    require_limit,
    require_need,
)

MAX_COMMAND = 128 * 1024 - 1
"""Bytes. The kernel takes no longer word in a command line, nor a longer NAME=value."""
MAX_STDIN = 1024 * 1024
LONGEST_ACCOUNT = 100
"""Bytes."""
MOST_NEEDS = 10
"""Tags, needs and the account are part of a lane, one text that must fit into an index of Postgres."""
_SHELL_AND_CWD = "Shell, directory"
"""One sentence for both options: the help of `add` shows them in one line."""
_THEIR_DEFAULTS = "/bin/sh, home"


def _choices(name: str) -> kinds.Choice:
    return kinds.Choice(get_args(Definition.__dataclass_fields__[name].type))


def _duration(right: str, *, most: float = LONGEST_DURATION) -> kinds.Duration:
    return kinds.Duration(SHORTEST, most, right, may_be_none=True)


def _what() -> Iterator[Field]:
    yield Field(
        name="name",
        group="what",
        kind=name_rules.TaskName(),
        help="Name of the task",
        example="A-Z a-z 0-9 . _ -",
        metavar="NAME",
        short="-n",
        default_text="from the command",
        details="`/usr/local/bin/backup.sh --full` becomes `backup`, the next one `backup-2`.",
        cron_may_ignore=True,
    )
    yield Field(
        name="command",
        group="what",
        kind=kinds.Text(),
        help="A shell line, or words that run without a shell",
        is_option=False,
    )
    yield Field(
        name="argv",
        group="what",
        kind=collection_kinds.Words(),
        help="Let a shell run the line, or run the words as they are",
        title="run as",
        is_option=False,
    )
    yield Field(
        name="describe",
        group="what",
        kind=kinds.Text(may_be_none=True),
        help="Description for people",
        metavar="TEXT",
        cron_may_ignore=True,
    )
    yield Field(
        name="labels",
        group="what",
        kind=collection_kinds.Labels(),
        directive="label",
        option="label",
        help="Label by which `-l` finds it; repeatable",
        example="team=shop tier=gold",
        metavar="K=V",
        phrase="{}",
        details="At most 20. A key is 1 to 40 of a-z 0-9 . _ - / and begins with a letter; a value is up to"
        " 60 of A-Z a-z 0-9 . _ - /. A label changes no run; see [labels](labels.md).",
        cron_may_ignore=True,
    )
    yield Field(
        name="stdin",
        group="what",
        kind=kinds.TextOrFile(may_be_none=True, most_bytes=MAX_STDIN),
        help="Text for the command's stdin, or @FILE",
        metavar="TEXT|@FILE",
        details="`@-` takes dcron's own stdin, `@@x` is the text `@x`. Up to 1 MiB of UTF-8.",
    )


def _when() -> Iterator[Field]:
    yield Field(
        name="schedule",
        group="when",
        kind=kinds.Text(),
        help="When it runs",
        example="'30 2 * * *', @daily, @every 90s, @after A,B, @on EVENT, @reboot",
        is_option=False,
    )
    yield Field(
        name="timezone",
        group="when",
        kind=kinds.Zone(),
        help="Time zone",
        example="Europe/Berlin",
        metavar="ZONE",
        option="tz",
        short="-z",
        title="zone",
        default_text="the crontab's",
        details="An IANA name. Without it the [crontab's](#dcron-config-listgetsetunset) zone applies, else"
        " `timezone` of the config file, else the machine's zone (never your `$TZ`), else UTC. The task"
        " keeps the zone that it got, and the answer says where it comes from.",
    )
    yield Field(
        name="gap",
        group="when",
        kind=_choices("gap"),
        help="A skipped local time",
        details="The clock skips it when daylight saving begins. `after` runs when the gap ends.",
        is_rule=True,
        cron_may_ignore=True,
    )
    yield Field(
        name="fold",
        group="when",
        kind=_choices("fold"),
        help="A repeated local time",
        details="The clock shows it twice when daylight saving ends; `both` runs twice.",
        is_rule=True,
        cron_may_ignore=True,
    )
    for name, edge in (("not_before", "First"), ("not_after", "Last")):
        yield Field(
            name=name,
            group="when",
            kind=kinds.Time(),
            help=f"{edge} time of the schedule",
            example="2027-01-01T09:00, tomorrow 09:00, +2h, none",
            metavar="TIME",
            details="A time in the task's zone; in a directive, in UTC.",
            is_rule=True,
        )
    for key in ("except", "only"):
        yield Field(
            name=f"{key}_calendar",
            group="when",
            kind=name_rules.CalendarName(),
            key=key,
            help="Skip a calendar's dates, or run only on them",
            example="holidays, none",
            metavar="CALENDAR|none",
            is_rule=True,
        )
    yield Field(
        name="jitter",
        group="when",
        kind=_duration("a duration longer than nothing and up to a day, such as 30s", most=LONGEST_JITTER),
        help="Longest stable delay of its starts",
        example="30s, none",
        metavar="30s|none",
        phrase="starts spread over {}",
        details="Up to a day.",
        cron_may_ignore=True,
    )


def _limits() -> Iterator[Field]:
    yield Field(
        name="timeout",
        group="limits",
        kind=_duration("a duration longer than nothing and up to a century, such as 30m"),
        help="Stop the command and its children after this",
        example="30m, none",
        metavar="30m|none",
        phrase="stopped after {}",
        cron_may_ignore=True,
    )
    yield Field(
        name="deadline",
        group="limits",
        kind=_duration("a duration longer than nothing and up to a century, such as 1h"),
        help="Skip a run that would start later than this",
        example="1h, none",
        metavar="1h|none",
        phrase="skipped when not started within {}",
        cron_may_ignore=True,
    )
    yield Field(
        name="max_running",
        group="limits",
        kind=kinds.Whole(1, 999_999_999, "a number from 1 on, or none for no limit", may_be_none=True),
        help="Most of its runs at once",
        example="1, 2, none",
        metavar="N|none",
        phrase="up to {} alive at once",
        details="With `--every-node`, on each node.",
        cron_may_ignore=True,
    )
    yield Field(
        name="overlap",
        group="limits",
        kind=_choices("overlap"),
        help="Beyond: skip, queue, replace",
        phrase="{}",
        details="A run that is due while that many are alive is recorded as skipped, waits, or stops the"
        " oldest run and starts.",
        cron_may_ignore=True,
    )
    yield Field(
        name="catch_up",
        group="limits",
        kind=_choices("catch_up"),
        help="Missed runs: skip, last, all",
        details="A run is missed while no agent can start it.",
        cron_may_ignore=True,
    )
    yield Field(
        name="catch_up_window",
        group="limits",
        kind=_duration("a duration longer than nothing and up to a century, such as 24h"),
        help="How far back missed runs are caught up on",
        example="24h, none",
        metavar="24h|none",
        cron_may_ignore=True,
    )
    yield Field(
        name="limit",
        group="limits",
        kind=collection_kinds.Amounts(
            parse_limit, format_limit, require_limit, example='{"files": 100}, memory in bytes'
        ),
        help="Limit such as mem or cpu-time; repeatable",
        example="mem=2G cpu-time=2m files=100",
        metavar="mem=2G",
        phrase="{}",
        fact="limits",
        details="`mem`, `file-size` and `core` are sizes, `cpu-time` is seconds or a duration such as `2m`,"
        " `files` and `procs` are counts.",
        cron_may_ignore=True,
    )
    yield Field(
        name="keep",
        group="limits",
        kind=collection_kinds.Amounts(
            KEEP.parse, KEEP.format, KEEP.require, example='{"runs": 604800, "last": 100}, in seconds'
        ),
        help="How long its history is kept; repeatable",
        example="runs=7d last=100 output=1d",
        metavar="runs=7d",
        phrase="{}",
        fact="keeps",
        details="`runs`, `bad`, `output` and `bad-output` are durations or `none`, `last` is a number of"
        " runs. What is not given follows the settings [`keep.*`](#dcron-config-listgetsetunset).",
        cron_may_ignore=True,
    )


def _retries() -> Iterator[Field]:
    yield Field(
        name="tries",
        group="retries",
        kind=kinds.Whole(1, MOST_TRIES, f"1 to {MOST_TRIES}, the first included"),
        help="Attempts, the first included",
        metavar="N",
        cron_may_ignore=True,
    )
    yield Field(
        name="backoff",
        group="retries",
        kind=kinds.Duration(0, LONGEST_DURATION, "0s to a century, such as 1s"),
        help="Delay before the second attempt",
        example="1s",
        metavar="1s",
        details="At least this long; `0s` is no delay. A value above `--backoff-max` is refused.",
        cron_may_ignore=True,
    )
    yield Field(
        name="backoff_factor",
        group="retries",
        kind=kinds.Number(1, MOST_BACKOFF_FACTOR, f"1 to {MOST_BACKOFF_FACTOR}, such as 2"),
        help="Factor of each further delay",
        example="2",
        metavar="2",
        cron_may_ignore=True,
    )
    yield Field(
        name="backoff_max",
        group="retries",
        kind=kinds.Duration(0, LONGEST_DURATION, "0s to a century, such as 1h"),
        help="Longest delay between attempts",
        example="1h",
        metavar="1h",
        cron_may_ignore=True,
    )
    yield Field(
        name="on_lost",
        group="retries",
        kind=_choices("on_lost"),
        help="A lost run: dead, or retry",
        phrase="retried when its node dies",
        fact="when lost",
        details="A lost attempt counts: `add --on-lost retry` alone takes 3 tries.",
        cron_may_ignore=True,
    )
    yield Field(
        name="on_disconnect",
        group="retries",
        kind=kinds.Choice(("stop", "keep"), may_be_none=True),
        help="Its command while its node is cut off",
        default_text="on-disconnect",
        phrase="{}",
        fact="when its node is cut off",
        details="What becomes of the command when its node cannot reach the database for most of a lease:"
        " `stop` ends it, `keep` lets it go on and records its end later. Give a kept task a `--timeout`;"
        " see [policies](policies.md#a-node-that-is-cut-off).",
        cron_may_ignore=True,
    )


def _where() -> Iterator[Field]:
    yield Field(
        name="queue",
        group="where",
        kind=name_rules.QueueName(),
        help="Queue whose limit applies",
        metavar="QUEUE",
        phrase="{}",
    )
    yield Field(
        name="priority",
        group="where",
        kind=_choices("priority"),
        help="Order: high, normal, low",
        phrase="{}",
        cron_may_ignore=True,
    )
    yield Field(
        name="require",
        group="where",
        kind=collection_kinds.Tags(),
        help="Tag of its node: ssd, zone=eu-1; repeatable",
        example="ssd zone=eu-1",
        metavar="TAG",
        phrase="{}",
        fact="requires",
        details="At most 20. `set --require` replaces all tags.",
    )
    yield Field(
        name="every_node",
        group="where",
        kind=kinds.Flag(),
        help="Run once on every node that can run it",
        phrase="once on every node that can run it",
    )
    yield Field(
        name="need",
        group="where",
        kind=collection_kinds.Amounts(
            parse_need,
            format_amount,
            require_need,
            example='{"gpu": 1}, memory in bytes',
            most=MOST_NEEDS,
        ),
        help="Part of its node's capacity; repeatable",
        example="gpu=1 mem=8G",
        metavar="gpu=1",
        phrase="{}",
        fact="needs",
        details="At most 10; part of the node's `--capacity`. `mem` and names that end in `-bytes` are"
        " sizes (`512M`, `1.5G`, powers of 1024), others are numbers.",
    )
    yield Field(
        name="user",
        group="where",
        kind=kinds.Account(most_bytes=LONGEST_ACCOUNT),
        help="Account of the command",
        metavar="USER",
        default_text="the agent's",
        details="At most 100 bytes. Only agents that may run commands as this account take the task's runs:"
        " those of root, and those that run as it. `add` and `set` warn where no living agent does.",
    )
    yield Field(
        name="shell",
        group="where",
        kind=kinds.Path(example="/bin/bash"),
        help=_SHELL_AND_CWD,
        metavar="PATH",
        default_text=_THEIR_DEFAULTS,
        details="An absolute path: the shell that runs a command line.",
    )
    yield Field(
        name="cwd",
        group="where",
        kind=kinds.Path(may_be_none=True, keeps_blanks=True),
        help=_SHELL_AND_CWD,
        metavar="PATH",
        default_text=_THEIR_DEFAULTS,
        details="An absolute path: the directory in which the command runs; by default the account's home.",
    )
    yield Field(
        name="env",
        group="where",
        kind=collection_kinds.Variables(most_bytes=MAX_COMMAND),
        help="Variable of the command; repeatable",
        example="NAME=value 'OTHER=two words'",
        metavar="NAME=VALUE",
        short="-e",
        details="`NAME=` is a variable that is empty.",
    )


def _alerts() -> Iterator[Field]:
    yield Field(
        name="expect",
        group="alerts",
        kind=collection_kinds.Amounts(
            EXPECT.parse,
            EXPECT.format,
            EXPECT.require,
            example='{"start": 900, "runtime": "2m..1h"}, in seconds',
        ),
        help="What to expect of its runs; repeatable",
        example="start=15m runtime=2m..1h success=26h",
        metavar="start=15m",
        phrase="{}",
        fact="expects",
        details="`start`: a due run starts within this time. `runtime`: a run takes as long as `2m..1h`,"
        " `..1h`, `2m..`, or `auto` as earlier runs. `success`: the task succeeds at least this often."
        " `none` expects nothing. What is not given follows the settings"
        " [`expect.*`](#dcron-config-listgetsetunset).",
        cron_may_ignore=True,
    )
    yield Field(
        name="notify",
        group="alerts",
        kind=channel_kinds.Channels(),
        help="Its channels; repeatable",
        example="ops mailto:ann@example.org, none",
        metavar="CHANNEL",
        default_text="notify.default",
        phrase="{}",
        fact="notifies",
        details="Names of channels, or `mailto:ADDRESS`, at most 10; or `none`. `set --notify` replaces all.",
        cron_may_ignore=True,
    )
    yield Field(
        name="notify_on",
        group="alerts",
        kind=channel_kinds.AlertKinds(),
        help="What to notify of; repeatable",
        example="failing late",
        metavar="KIND",
        default_text="notify.on",
        phrase="{}",
        fact="notifies on",
        details=f"{', '.join(f'`{kind}`' for kind in channel_kinds.NOTIFY_ON)}.",
        cron_may_ignore=True,
    )
    yield Field(
        name="notify_after",
        group="alerts",
        kind=kinds.Whole(
            1, MOST_NOTIFY_AFTER, f"1 to {MOST_NOTIFY_AFTER:,}, or none for the setting's", may_be_none=True
        ),
        help="Failed runs in a row that count",
        example="3, none",
        metavar="N|none",
        default_text="notify.after",
        phrase="failing after {} failed runs in a row",
        details="The task counts as failing after so many. Of several attempts the last one counts.",
        cron_may_ignore=True,
    )
    yield Field(
        name="ping",
        group="alerts",
        kind=kinds.WebAddress(),
        help="URL to request at its starts and ends",
        example="https://hc-ping.com/UUID, none",
        metavar="URL|none",
        fact="pings",
        phrase="{}",
        details="In the form of [Healthchecks](alerts.md#pings): `URL/start`, `URL` after a success,"
        " `URL/EXITCODE` after a failure. Everyone who can read the crontab sees it.",
        cron_may_ignore=True,
    )


FIELDS: Mapping[str, Field] = MappingProxyType(
    {field.name: field for part in (_what, _when, _limits, _retries, _where, _alerts) for field in part()}
)
"""By name, in the order of the help and of the form."""
BY_DIRECTIVE: Mapping[str, Field] = MappingProxyType({field.directive: field for field in FIELDS.values()})
"""By the names that directives have for them."""
BY_KEY: Mapping[str, Field] = MappingProxyType({field.key: field for field in FIELDS.values()})
"""By the names that JSON and TOML have for them."""
OPTIONS = tuple(field for field in FIELDS.values() if field.is_option)
CLEARABLE = tuple(field.option for field in OPTIONS if field.is_clearable)
BY_NAME = tuple(field.name for field in FIELDS.values() if field.kind.is_by_name)
"""Fields that hold values by name."""

assert set(FIELDS) == set(DEFINITION_FIELDS)
