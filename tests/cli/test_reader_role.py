"""A Postgres role that may only read: all reading verbs work under it, and the others say what it lacks."""

from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from tests.support.cli import Dcron
from tests.support.databases import execute

READING = (
    ("list",),
    ("list", "--json"),
    ("view", "job"),
    ("preview", "job"),
    ("preview", "--all"),
    ("runs",),
    ("runs", "job", "--json"),
    ("logs", "job"),
    ("why", "job"),
    ("history",),
    ("stats",),
    ("report",),
    ("forecast",),
    ("alerts",),
    ("dead",),
    ("nodes",),
    ("calendar", "list"),
    ("queue", "list"),
    ("channel", "list"),
    ("config", "list"),
    ("export",),
    ("dump", "-"),
    ("info",),
    ("doctor",),
    ("lint",),
)
FINDINGS = {"doctor", "lint"}
"""Verbs that end with 1 where they find something."""


@pytest.fixture
def reader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], postgres_url: str
) -> Iterator[Dcron]:
    """`dcron` under a role with SELECT alone, on a crontab with a task that has run."""
    owner = Dcron(monkeypatch, capsys, postgres_url)
    owner.done("add", "-n", "job", "@daily", "echo done")
    owner.done("run", "job")
    owner.run_due()
    url = make_url(postgres_url)
    role = f"{url.database}_reader"
    execute(
        postgres_url,
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT USAGE ON SCHEMA dcron TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA dcron TO {role}",
    )
    yield Dcron(
        monkeypatch, capsys, url.set(username=role, password="x").render_as_string(hide_password=False)
    )
    execute(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_every_reading_verb_works_with_select_alone(reader: Dcron) -> None:
    for words in READING:
        done = reader(*words)
        assert done.code in ((0, 1) if words[0] in FINDINGS else (0,)), (words, done)
        assert "permission denied" not in done.err, words
    assert "done" in reader.done("logs", "job").out


def test_a_verb_that_writes_names_the_right_that_is_missing(reader: Dcron) -> None:
    for words in (("add", "@daily", "x"), ("pause", "job"), ("run", "job"), ("rm", "-f", "job")):
        refused = reader(*words)
        assert (refused.code, "permission denied" in refused.err) == (3, True), (words, refused)
        assert len(refused.err.splitlines()) == 1, words
