"""`db scrub`, and the warning of lint: no secret stays in the database."""

import json

import pytest
from sqlalchemy import text

from dcron.database import open_database
from dcron.policy.secrets import secret_names
from dcron.store import scrub
from tests.support.cli import Dcron

SECRET = "hush-4711"


def everything(url: str) -> str:
    """Return all rows of all tables as a text."""
    from dcron.schema.tables import metadata

    database = open_database(url)
    with database.read() as connection:
        rows = [str(connection.execute(text(f"SELECT * FROM {table}")).all()) for table in metadata.tables]
    database.close()
    return "\n".join(rows)


@pytest.fixture
def leaky(dcron: Dcron) -> Dcron:
    """A secret in a task that has it, in one that had it and one that was removed, in runs and trials."""
    dcron.done("add", "-n", "has", "-e", f"TOKEN={SECRET}", "-e", "A=1", "@yearly", "true")
    dcron.done("add", "-n", "had", "-e", f"TOKEN={SECRET}", "@yearly", "true")
    dcron.done("add", "-n", "gone", "-e", f"TOKEN={SECRET}", "@yearly", "true")
    for name in ("has", "had", "gone"):
        dcron.done("run", name)
    dcron.done("run", "has", "--with", "true", "-e", f"TOKEN={SECRET}2")
    dcron.done("set", "had", "--clear", "env.TOKEN")
    dcron.done("rm", "gone", "-f")
    assert everything(dcron.url).count(SECRET) > 10
    return dcron


def test_scrub_removes_it_everywhere(leaky: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "PAGE", 2)
    refused = leaky("db", "scrub", "--env", "TOKEN")
    assert refused.code != 0
    assert "remove TOKEN from has, and from all runs and changes" in refused.err
    done = leaky.done("db", "scrub", "--env", "TOKEN", "-f")
    assert SECRET not in everything(leaky.url)
    assert done.out.startswith("removed  TOKEN: 1 task, ")
    assert SECRET not in done.out + done.err + leaky.done("history", "-p").out
    assert "scrub" in leaky.done("history").out
    assert leaky.done("view", "has", "--json").json["env"] == {"A": "1"}
    assert leaky.done("runs", "--json").json
    assert leaky.done("db", "scrub", "--env", "TOKEN", "-f").out.startswith(
        "removed  TOKEN: 0 tasks, 0 runs, "
    )


def test_an_undo_does_not_bring_it_back(leaky: Dcron) -> None:
    leaky.done("db", "scrub", "--env", "TOKEN", "-f")
    leaky("undo", "had", "-f")
    assert SECRET not in everything(leaky.url)


@pytest.mark.parametrize("name", ["TOKEN=x", "", "A B", "$(x)"])
def test_a_variable_has_a_name(sqlite: Dcron, name: str) -> None:
    assert sqlite("db", "scrub", "--env", name, "-f").code == 2


def test_only_environments_are_scrubbed() -> None:
    document = {"env": {"A": "1", "B": "2"}, "after": [{"env": {"A": "3"}}], "A": "4", "labels": {"A": "5"}}
    left = json.loads(scrub.without(json.dumps(document), "A"))
    assert left == {"env": {"B": "2"}, "after": [{"env": {}}], "A": "4", "labels": {"A": "5"}}
    assert json.loads(scrub.without('{"env":{"\\u0041":"1"}}', "A")) == {"env": {}}
    for kept in ('{"env":"A"}', '{"A"', "[" * 100_000 + '"A"', '{"env":{"A":'):
        assert scrub.without(kept, "A") == kept


def test_lint_warns_of_secrets(dcron: Dcron) -> None:
    dcron.done("add", "-n", "t", "-e", f"TOKEN={SECRET}", "-e", "TOKEN_FILE=/x", "@yearly", "true")
    answer = dcron("lint", "--json")
    assert [each["code"] for each in answer.json] == ["secret-in-env"]
    assert SECRET not in answer.out


def test_what_looks_like_a_secret() -> None:
    secrets = {
        **dict.fromkeys(("TOKEN", "PGPASSWORD", "DB_PASSWORD", "aws_secret_access_key", "API_KEY"), "x"),
        "URL": "postgresql://ann:x@db/cron",
    }
    others = {
        **{"TOKEN_FILE": "x", "PASSWORD": "/run/secrets/x", "SECRET": "", "PWD": "x", "MONKEY": "x"},
        **{"KEY": "x", "COMPASS": "x", "URL": "https://example.org/a:b@c", "PATH": "/bin"},
    }
    assert secret_names(secrets) == list(secrets)
    assert secret_names(others) == []
