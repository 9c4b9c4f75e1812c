"""What this node accepts: its policy file, read anew when it changes, and the judgement of each start.

A user who can write to the database can write any command into it. So the node judges each finished command
by a file that only its administrator writes. An agent of root without that file accepts every account but
root. One that ran here before there were policies goes on accepting root for 30 days, and says so each day.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from dcron.agent.log import log
from dcron.config import trust
from dcron.config.policy_file import POLICY, PolicyFile, PolicyPath, Stamp, read_policy, stamp_of
from dcron.errors import DcronError, UsageError
from dcron.nodepolicy.accounts import ACCEPT_ALL, ALL_BUT_ROOT, ROOT, canonical
from dcron.nodepolicy.command import finished
from dcron.nodepolicy.grammar import Policy
from dcron.nodepolicy.judge import accepts_account, judge
from dcron.nodepolicy.machine import LASTS, ThisMachine
from dcron.store.runs.candidates import ClaimedRun
from dcron.warden.accounts import Account

GRACE = timedelta(days=30)
"""How long an upgraded agent of root without a policy goes on running tasks of root."""
MOST_PUBLISHED = 32 * 1024
"""Characters of the rules that a node publishes; of longer ones it publishes the accounts alone."""
_MOST_VERDICTS = 20_000
_GRACE_FILE = "policy-grace"
_RAN_BEFORE = "seen.json"
"""A file in the spool of every agent that has seen a run."""


class _Kept(NamedTuple):
    """A verdict, and all that it was about."""

    edition: int
    until: float
    spec: Mapping[str, Any]
    task: tuple[Any, ...]
    refusal: str | None


@dataclass(frozen=True)
class Published:
    """What the node publishes of its policy."""

    edition: int
    """Grows with each change."""
    accounts: tuple[str, ...]
    rules: dict[str, Any] | None
    digest: str | None
    """What identifies the rules, if others than accounts are published."""
    error: str | None


class Admission:
    """The policy in force on one agent. Without a path, every account is accepted that the agent may use."""

    def __init__(
        self,
        path: PolicyPath | None,
        account: Account,
        node: str,
        spool: Path | None = None,
        today: date | None = None,
    ) -> None:
        """Read the policy. Raises UsageError or Refused for one that cannot be used."""
        self._path = path
        self._account = account
        self._node = node
        self._machine = ThisMachine()
        self._lock = Lock()
        self._file: PolicyFile | None = None
        self._seen: Stamp | None = None
        self._policy = Policy(accounts=(ALL_BUT_ROOT, ROOT))
        self._root_until: date | None = None
        self._said_on: date | None = None
        self._error: str | None = None
        self._verdicts: dict[tuple[int, bool], _Kept] = {}
        self.published = Published(0, self._accounts(), None, None, None)
        if path:
            self._begin(path, spool, today or _today())

    def _begin(self, path: PolicyPath, spool: Path | None, today: date) -> None:
        self._seen = stamp_of(path.path)
        try:
            self._file = read_policy(path.path)
        except FileNotFoundError:
            if path.is_named:
                raise UsageError(f"there is no policy {path.path}") from None
        if self._account.uid == trust.ROOT and spool:
            self._root_until = _root_until(spool, today, has_policy=self._file is not None)
        self._decide(today)
        self._publish()

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts that it accepts, for lanes."""
        return self.published.accounts

    def refresh(self, today: date | None = None) -> bool:
        """Read the file anew if it has changed; return whether the node now accepts or publishes otherwise.

        A file that cannot be used changes nothing but `published.error`.
        """
        if self._path is None:
            return False
        stamp, today = stamp_of(self._path.path), today or _today()
        if stamp != self._seen:
            self._seen = stamp
            self._read_again(self._path.path)
        self._decide(today)
        return self._publish()

    def check(self, run: ClaimedRun) -> str | None:
        """Return why the policy refuses this run; None if it allows it.

        A verdict is kept for a minute, for exactly the same task and command.
        """
        task = run.task
        key = task.id, run.payload is not None
        about = task.name, task.labels, task.source
        edition, now = self.published.edition, monotonic()
        kept = self._verdicts.get(key)
        is_fresh = kept and kept.edition == edition and now < kept.until
        if kept and is_fresh and kept.spec == run.spec and kept.task == about:
            return kept.refusal
        refusal = self._judge(run)
        with self._lock:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = _Kept(edition, now + LASTS, run.spec, about, refusal)
        return refusal

    def _judge(self, run: ClaimedRun) -> str | None:
        task, spec = run.task, run.spec
        home = self._machine.home(spec.get("user"))
        has_payload = run.payload is not None
        command = finished(task.name, task.labels, task.source, spec, home, payload=has_payload)
        verdict = judge(self._policy, command, self._machine)
        if verdict.allowed:
            return None
        where = [str(self._path.path) if self._path else "none"]
        if self._file is None:
            where = [f"there is no {where[0]}"]
        elif verdict.entry and verdict.line:
            where.append(str(verdict.entry))
        elif verdict.line:
            where.append(f"line {verdict.line}")
        return f"{self._node}'s policy ({', '.join(where)}): {verdict.reason}"

    def _read_again(self, path: Path) -> None:
        try:
            self._file = read_policy(path)
        except FileNotFoundError:
            if self._file is None:
                return
            self._error = f"the policy {path} is gone"
        except DcronError as error:
            self._error = str(error)
        else:
            self._error = None
            log.info("the policy %s is in force", path, event="policy-read")
            return
        kept = "the one before stays in force" if self._file else "nothing changes"
        log.error("%s; %s", self._error, kept, event="policy-refused")

    def _decide(self, today: date) -> None:
        """Set the policy in force."""
        if self._file:
            self._policy = self._file.policy
            return
        goes_on = self._root_until is not None and today < self._root_until
        root = (ROOT,) if goes_on or self._account.uid != trust.ROOT else ()
        self._policy = Policy(accounts=(ALL_BUT_ROOT, *root))
        if self._account.uid == trust.ROOT and today != self._said_on:
            self._said_on = today
            self._say_that_there_is_none(goes_on=goes_on)

    def _say_that_there_is_none(self, *, goes_on: bool) -> None:
        path = self._path.path if self._path else POLICY
        now = "refuses tasks of root, also those without a user"
        if goes_on:
            now = f"runs tasks of root until {self._root_until}, and refuses them from then on"
        log.warning(
            "this agent of root has no policy %s, so it %s: `dcron policy suggest` shows a policy for the"
            " tasks there are; one line accepts every account:  %s",
            *(path, now, ACCEPT_ALL),
            event="no-policy",
        )

    def _publish(self) -> bool:
        """Make what the node publishes anew; return whether it differs."""
        before = self.published
        rules = self._rules()
        accounts = self._accounts()
        if (accounts, rules, self._error) == (before.accounts, before.rules, before.error) and before.edition:
            return False
        has_more = bool(self._file and self._policy.allow and rules and "rules" in rules)
        digest = self._file.digest if self._file and has_more else None
        self.published = Published(before.edition + 1, accounts, rules, digest, self._error)
        return True

    def _rules(self) -> dict[str, Any] | None:
        if self._path is None:
            return None
        content = (
            self._policy.published if self._file else {"accounts": list(self._policy.accounts), "lines": []}
        )
        rules = {"path": str(self._path.path), "digest": self._file.digest if self._file else None}
        if self._file is None and self._root_until:
            rules["root_until"] = self._root_until.isoformat()
        full = {**rules, "rules": content}
        return full if len(json.dumps(full)) <= MOST_PUBLISHED else rules

    def _accounts(self) -> tuple[str, ...]:
        """Return the accounts that it accepts, as lanes are compared with them: by name and by number."""
        accepted = self._policy.accounts
        if not self._account.any_account:
            own = accepts_account(accepted, self._account.uid, self._machine)
            return (self._account.name, canonical(str(self._account.uid))) if own else ()
        found: list[str] = []
        for each in accepted:
            number = None if each == ALL_BUT_ROOT else self._machine.account(each)
            found += [canonical(each)] if number is None else [canonical(each), canonical(str(number))]
        return tuple(dict.fromkeys(found))


def _root_until(spool: Path, today: date, *, has_policy: bool) -> date | None:
    """Return the day from which tasks of root need a policy; None if they need one at once.

    The first start of an agent that knows policies writes it into the spool. There, and not in the database:
    a user who can write that must not be able to set it.
    """
    path = spool / _GRACE_FILE
    try:
        return _date(path.read_text())
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return None
    until = today + GRACE if not has_policy and (spool / _RAN_BEFORE).exists() else None
    try:
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(f"{until.isoformat() if until else 'none'}\n")
    except OSError as error:
        log.warning("cannot write %s: %s", path, error.strerror, event="spool-failed")
        return None
    return until


def _date(text: str) -> date | None:
    word = text.strip()
    return None if word == "none" else date.fromisoformat(word)


def _today() -> date:
    return datetime.now(UTC).date()
