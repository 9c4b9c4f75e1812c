"""The shapes of the JSON that scripts read: the one description of every key, its type and its former name.

`make` builds a document from it; `docs/cli.md`, `dcron help json` and the tests are made from it, too.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, NamedTuple

from dcron.values.json_values import seconds

DOCUMENTS = """
task = name:text schedule:text timezone:text command:text argv:text[]? enabled:bool paused_reason:text?
    paused_by:text? paused_until:time? next_run_at:time? last_run:@run? node_id<owner:text?
    revision<version:int once:bool error:text? failed:bool late:bool frozen:bool frozen_until:time?
    dead:bool source:text? drifted:bool unserved:text? alerts:@alert[] +definition
definition = stdin:text? env:text{} cwd:text? shell:text user:text? timeout:duration? max_running:int?
    overlap:text tries:int backoff:duration backoff_factor:number backoff_max:duration on_lost:text
    on_disconnect:text?
    deadline:duration? catch_up:text catch_up_window:duration? jitter:duration? priority:text queue:text
    require:text[] every_node:bool need:number{} limit:number{} gap:text fold:text not_before:time?
    not_after:time? except:text? only:text? describe:text? keep:any{} notify:text[] notify_on:text[]
    notify_after:int? expect:any{} ping:text? labels:text{}
task-view = +task waiting:@run[] dead_letters:@run[] graph:any{}
run = id:int task:text state:text reason:text? trigger:text attempt:int scheduled_for:time? due_at:time
    claimed_at:time? started_at:time? finished_at:time? wait:duration? node_id<owner=owner:text? node:text?
    exit_code:int? signal:int? duration:duration? retry_of:int? dead:bool queue:text blocked:text?
    expires_at:time? flow_id<flow=flow:int? event_id<event:int? refused_by:text{} trial=is_trial:bool
    unheard_since:time? lost_after:time?
run-view = +run retried_as:int? cancel_requested_by:text? for_node:text? output_bytes:int payload:text?
    spec:any{} like:int?
output = run_id<run:int offset:int stream:text at:time text:text
change = id:int at:time by<actor=actor:text login:text? via:text? reason<note=note:text? batch:text?
    kind:text action:text name=subject:text? task_id:int? revision<version=version:int? undoes:int?
    fields:text[] before:any{}? after:any{}?
alert = id:int kind:text subject:text task:text? opened_at:time closed_at:time? closed_as:text?
    count<times=times:int last_at:time run_id<run:int? last_run_id<last_run:int? notified_at:time?
    acknowledged_by:text? acknowledged_at:time?
    acknowledged_reason<acknowledged_note=acknowledged_note:text? silent_until:time?
alert-facts = +alert cause:text? node=run.node:text? exit_code=run.exit_code:int?
    last_success_at=last_success.finished_at:time? next_run_at:time? began:text? difference:text[]
    change_id<change:int?
node = id:text name:text host:text pid:int state:text tags:text[] queues:text[] capacity:number{}
    account:text? any_account:bool? accepted_accounts:text[]? policy_error:text? slots:int running:int
    version:text tzdata:text started_at:time alive_until:time clock_offset:duration?
    unheard_count:int unheard_since:time?
policy-check = path:text problems:@policy-problem[] doubts:@policy-problem[]
    verdicts:@policy-verdict[]
policy-problem = line:int? text:text
policy-verdict = task:text user:text allowed:bool entry:text? line:int? reason:text?
policy-explained = task:text node:text? path:text allowed:bool reason:text? entry:text? line:int?
    keys:@policy-key[]
policy-key = key:text allowed:bool reason:text?
queue = name:text max_running:int? running=alive:int
channel = name:text kind:text? nodes:text[] waiting_count<waiting=figures.waiting:int
    sent_at=figures.sent_at:time? error=figures.error:text?
freeze = id:int state:text from<from_at=from_at:time until<until_at=until_at:time? reason:text?
    created_at:time created_by:text? thawed_at:time? thawed_by:text? cancelled_runs<cancelled:int[]-
hold = task:text run_id<run:int? reason:text created_at:time created_by:text?
setting = name=setting.name:text value:any? help=setting.help:text changed_at:time? changed_by:text?
calendar = name:text dates:date[] annual:text[] weekdays:text[] recurring:any[] changed_at:time
    changed_by:text?
calendar-view = +calendar next_dates:date[] tasks:text[]
event = id:int name:text key:text? created_at:time created_by:text?
emitted = event:@event? runs:@run[] duplicate:bool
backfill = task:text from:time until<to:time dry_run:bool run_count<runs:int
    existing<there_already=already_done:int occurrence_times<occurrences=occurrences:time[]
preview = schedule:text? timezone:text explanation:text? occurrences:@occurrence[] warnings:@finding[]
    clock_changes:@clock-change[]-
occurrence = task:text- at:time local:text utc_offset<offset:text note:text? reason:text? starts_at:time?
clock-change = at:time local:text text:text
finding = task:text?- code:text- message:text place:text- line:int?- file:text?-
problem = code:text message<problem=problem:text effect:text advice:text subjects:text[]
doctor = findings:@problem[]
why = task:text from<when:time? until:time? causes:@cause[]
cause = code:text message<sentence:text at:time?- run_id<run:int- alert_id<alert:int-
    freeze_id<freeze:int- state:text- trigger:text- attempt:int- node_id<node:text?- started_at:time?-
    finished_at:time?- flow_id<flow:int?- reason:text?- exit_code:int?- signal:int?- dead:bool- by:text?-
    login:text?- since:time?- until:time?- kind:text- began:text?- difference:text[]- due_at:time-
    expires_at:time?- run_ids<runs:int[]- node_ids<nodes:text[]- retry_of:int?- held_by_id<held_by:int-
    more:int- first:time?- last:time?- previous_at<before:time?- next_at<after:time?- schedule:text-
    not_before:time- not_after:time- queue:text- max_running:int?- require:text[]- need:number{}-
    user:text?- lane:text- priority:text- ahead:int- upstream:text?- upstream_run_id<upstream_run:int?-
    waits_for:text[]- event_name<event:text- keep_runs:text?- ran_until:time?- last_id<ids:int?-
    fields:text[]- unheard_since:time- lost_after:time?-
totals = run_count<runs=runs:int succeeded:int failed:int lost:int cancelled:int skipped:int
span = from:time until:time +totals success_rate:number? p50:duration? p95:duration? longest:duration?
    late_p50:duration? late_p95:duration? work:duration
statistics = by:text name:text is_removed<removed:bool +span trend:number? previous<before:@span
report = from=span.start:time until=span.end:time +totals previous<before:@totals failures:@failure[]
    skipped_by_code=skipped:@skip-group[] late_starts<late=late:@late-start[]
    nodes_lost=lost_nodes:@lost-node[]
    slower:@statistics[] new_dead_letters:int{} alert_kinds<alerts=alerts:@alert-kind[]
    changes:@report-change[] more_changes:bool pruned_until:date? incomplete=is_incomplete:bool
failure = task=name:text failure_count<failures=failures:int still_fails:bool is_removed<removed:bool
    last_run:@run?
skip-group = code:text? occurrence_count<occurrences=occurrences:int by_task<tasks:int{}
    from<first=first:time? until<last:time?
late-start = task=name:text run_count<runs=runs:int late_p95=p95:duration latest:duration
lost-node = node_id<node=id:text died_at:time runs_lost:int
alert-kind = kind:text opened:int still_open=open:text[]
report-change = at:time by=author:text action:text task:text? fields:text[]
forecast = from=begin:time until:time timezone:text slots:int agents:int starts:int worst:@wait?
    hours:@hour[] crowded_minutes=crowded:@crowded[] skips<skipped:@skip[]
    unserved_tasks<unserved:@unserved[] unknown_durations=unknown:text[]
    assumed_duration=assumed:duration? reliefs:@relief[] left_out:@left-out
wait = task:text due_at:time wait:duration
hour = from=begin:time until=end:time starts:int busiest_minute=busiest:time? busiest_starts:int
    slots_peak=peak:int wait_p95:duration? worst:@wait? late_tasks=late:text[]
crowded = at:time starts:int longest_wait=worst:duration
skip = task:text code:text skipped_count<count=count:int occurrence_count<occurrences=occurrences:int
    every:duration? p95:duration?
unserved = task:text reason:text
relief = kind:text value:any tasks:text[] label:text? minute:time? longest_wait_before=before:duration
    longest_wait_after=after:duration
left-out = paused_count<paused=paused:int frozen_count<frozen=frozen:int unforeseen:text[]
    unreadable:@unserved[]
quiet = from=begin:time until:time timezone:text spans<times=times:@quiet-span[]
    longest_span<longest=longest:@quiet-span? left_out:@left-out
quiet-span = from=begin:time until=end:time duration<seconds=seconds:duration
    still_running<running=running:@ending[]
ending = task:text started_at:time ends_by:time?
comparison = from=after.begin:time until=after.until:time starts_before=before.starts:int
    starts=after.starts:int worst_before=before.worst:@wait? worst=after.worst:@wait?
    moved:@moved[] overlaps:@skip[] crowded_minutes=crowded:@crowded[] unserved_tasks<unserved:@unserved[]
moved = task:text starts_before:int starts:int first_before:time? first:time?
plan = source:text dry_run:bool added:text[] changed:text[] removed:text[] adopted:text[] extra:text[]
    unchanged:text[] renamed:text{} conflicts:@conflict[] refused:@refusal[] obstacle:text?
    warnings:@finding[] batch:text? forecast:@comparison?
conflict = task<name:text message:text by:text? at:time? reason<note:text? by_hand:text[] difference:text[]
    field_changes<fields:@field-change[]
field-change = field:text by:text? at:time? reason<note:text?
refusal = task<name:text message:text source:text?
imported = added:text[] changed:text[] unchanged:text[] accounts:any{} renamed:text{} source:text
    warnings:@finding[]
restored = dry_run:bool setting_changes<settings:@restored-kind calendar_changes<calendars:@restored-kind
    queue_changes<queues:@restored-kind task_changes<tasks:@restored-kind not_started:text[]
    suspended:text{}
restored-kind = added:text[] changed:text[] unchanged:text[]
undone = dry_run:bool batch:text? undone_tasks<tasks:@undone-change[] undone_others<others:@undone-change[]
    cancelled_count:int
undone-change = kind:text name:text?
pruned = dry_run:bool task:text? run_count<runs=runs:int output_count<outputs=outputs:int bytes:int
    oldest_at<oldest=oldest:time? dismissed:int event_count<events:int node_count<nodes:int
    statistics_count<statistics:int change_count<changes:int compacted:int?
dismissed = dismissed:int
url = url:text
info = version:text json:int database:text database_from:text? database_kind:text database_version:text?
    journal_mode:text? pooler:text? encryption:text? sslmode:text? certificate_verified:bool?
    require_auth:text? database_schema:text? others_may_create:bool? synchronous_replication:any?
    synchronous_standby_names:any? synchronous_commit:text? last_epoch_at:time? last_epoch_reason:text?
    clock_set_back_at:time? pruned_at:time? pruned_run_count<pruned_runs:int? prune_error:text?
    pruning_begins_at:time? oldest_run_at:time? schema_version<schema:text? task_count<tasks:int?
    nodes_alive:int? timezone:text tzdata:text context:text? config_file:text?
edited = added:text[] changed:text[] removed:text[] renamed:text{}
dumped = file:text task_count:int calendar_count:int
prepared = url:text schema_before:text? schema_version:text
sent = channel:text sent_by:text
scrubbed = variable:text task_count:int run_count:int change_count:int message_count:int alert_count:int
"""
"""One document each: `key:type`. `key<old:type` was called `old` until 0.2. `key=attribute:type` is
named `attribute` in the program. Behind a type: `[]` an array,
`{}` an object by name, `?` may be null, `-` may be absent. `@doc` is another document, `+doc` has its keys,
too. Types: int number bool text, time (2026-11-23T08:26:00Z), date, duration (seconds), any."""
PRINTED = """
task = list[] add at set pause resume rm
task-view = view
run-view = view_--run
run = runs[] run cancel retry dead[]
output = logs[]
change = history[]
alert-facts = alerts[]
alert = ack[]
node = nodes[] drain[] undrain[]
policy-check = policy_check
policy-explained = policy_explain
queue = queue_list[] queue_set
channel = channel_list[]
sent = channel_test
freeze = freeze_list[] freeze thaw
hold = hold unhold
setting = config_list[] config_get config_set config_unset
calendar = calendar_list[] calendar_add calendar_rm
calendar-view = calendar_view
emitted = emit
backfill = backfill
preview = preview
finding = lint[]
doctor = doctor
why = why
statistics = stats[]
report = report
forecast = forecast
quiet = forecast_--quiet
plan = apply diff
imported = import
restored = restore
undone = undo
pruned = prune
dismissed = dead_dismiss
url = db_url
prepared = db_init db_upgrade
scrubbed = db_scrub
info = info
edited = edit
dumped = dump
"""
"""The document of each verb, with `_` for a blank; `[]` if the verb prints an array also of one."""
VERSION = 2
"""The version of the names: `DCRON_JSON=2` leaves the old ones out."""
_KEY = re.compile(
    r"(?P<name>\w+)(<(?P<old>\w+))?(=(?P<attribute>[\w.]+))?:"
    r"(?P<type>@?[\w-]*\w)(?P<many>\[\]|\{\})?(?P<null>\?)?(?P<absent>-)?"
)
_FRACTION = re.compile(r"\.\d+(?=Z$)")


class Document(dict[str, Any]):
    """A JSON object that knows the name of its document."""

    __slots__ = ("kind",)
    kind: str


class Key(NamedTuple):
    """A key of a document."""

    name: str
    old: str | None
    """Its name until 0.2."""
    attribute: str
    """The attribute of the program's value that has it, or the path to it."""
    type: str
    many: str
    """`[]` for an array, `{}` for an object by name."""
    may_be_null: bool
    may_be_absent: bool

    @property
    def shown_type(self) -> str:
        """Its type as DOCUMENTS spells it, without the marks for null and absent."""
        return f"{self.type}{self.many}"

    def value(self, given: Any) -> Any:
        """Return a value of this key as JSON has it."""
        if given is None:
            return None if self.may_be_null or not self.many else {} if self.many == "{}" else []
        convert = _CONVERT.get(self.type)
        if self.type.startswith("@"):
            convert = self._nested
        if self.many == "[]":
            return list(map(convert, given)) if convert else list(given)
        if self.many == "{}":
            return {name: convert(each) if convert else each for name, each in given.items()}
        return convert(given) if convert else given

    def _nested(self, given: Any) -> Any:
        return given if isinstance(given, dict) else make(self.type[1:], given)


def time(at: datetime | str) -> str:
    """Return a time in UTC as JSON has it: whole seconds, cut, so that no time is before one it follows."""
    if isinstance(at, datetime):
        at = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _FRACTION.sub("", at)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "time": time,
    "date": lambda day: day.isoformat() if isinstance(day, date) else day,
    "duration": seconds,
}


def make(name: str, source: Any = None, /, **own: Any) -> Document:
    """Return the document of this name: its keys are taken from `own`, else from the attributes of `source`.

    `from_` is the key `from`. Beside each key is the name that it had until 0.2, except with DCRON_JSON=2.
    """
    if "from_" in own:
        own["from"] = own.pop("from_")
    found = Document()
    found.kind = name
    with_old = has_old_keys()
    for key in keys(name):
        if key.name in own:
            value = own.pop(key.name)
        elif key.may_be_absent:
            continue
        else:
            value = attribute(source, key.attribute)
        found[key.name] = value = key.value(value)
        if with_old and key.old:
            found[key.old] = value
    found.update(own)  # a fact that is not described yet is better than none
    return found


def attribute(source: Any, path: str) -> Any:
    """Return the attribute at a path such as `node.id`; None where one on the way is None."""
    first, *others = path.split(".")
    value = getattr(source, first)
    for name in others:
        value = None if value is None else getattr(value, name)
    return value


def has_old_keys() -> bool:
    """Return whether documents have the names of 0.1 beside those of today."""
    return os.environ.get("DCRON_JSON") != str(VERSION)


@cache
def keys(name: str) -> tuple[Key, ...]:
    """Return the keys of a document."""
    return tuple(_keys(shapes()[name]))


def _keys(shape: str) -> Iterator[Key]:
    for word in shape.split():
        if word.startswith("+"):
            yield from keys(word[1:])
        elif found := _KEY.fullmatch(word):
            many, null, absent = found["many"] or "", bool(found["null"]), bool(found["absent"])
            attribute = found["attribute"] or found["name"]
            yield Key(found["name"], found["old"], attribute, found["type"], many, null, absent)
        else:
            raise ValueError(word)


@cache
def shapes() -> dict[str, str]:
    """Return the shape of each document."""
    return _table(DOCUMENTS)


@cache
def printed() -> dict[str, tuple[str, bool]]:
    """Return the document of each verb, and whether the verb always prints an array of it."""
    verbs = [(name, verb) for name, verbs in _table(PRINTED).items() for verb in verbs.split()]
    return {verb.removesuffix("[]").replace("_", " "): (name, verb.endswith("[]")) for name, verb in verbs}


def _table(text: str) -> dict[str, str]:
    lines = re.split(r"\n(?=\S)", text.strip())
    return {name: shape for name, _, shape in (line.partition(" = ") for line in lines)}


def own_name(kind: str) -> str | None:
    """Return the key that names one of these documents among others, such as the number of a run."""
    found = {key.name: key.type for key in keys(kind)}
    if found.get("id") == "int":
        return "id"
    return next((name for name in ("name", "run_id") if name in found), None)


def columns(kind: str) -> list[str]:
    """Return the keys with one value each, for CSV."""
    return [key.name for key in keys(kind) if not key.many and key.type[0] != "@"]
