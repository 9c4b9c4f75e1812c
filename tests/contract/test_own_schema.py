"""The schema `dcron` is used only if no other role owns it, may create in it, or has created in it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count

import psycopg
import pytest
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import is_transient, open_database
from dcron.errors import DatabaseError
from dcron.services.crontab import Crontab
from tests.support.cli import real

_NUMBERS = count(1)
Roles = Callable[[str], str]


@pytest.fixture
def url(empty_database_url: str) -> str:
    """The URL of an empty Postgres database, of a superuser."""
    if empty_database_url.startswith("sqlite"):
        pytest.skip("SQLite has no schemas")
    return empty_database_url


@pytest.fixture
def role(url: str) -> Iterator[Roles]:
    """Make a role; return its name."""
    made = []

    def make(options: str = "") -> str:
        made.append(f"{make_url(url).database}_{next(_NUMBERS)}")
        sql(url, f"CREATE ROLE {made[-1]} LOGIN PASSWORD 'x' {options}")
        return made[-1]

    yield make
    sql(url, f"ALTER DATABASE {make_url(url).database} OWNER TO CURRENT_USER")
    for name in reversed(made):
        sql(url, f"DROP OWNED BY {name} CASCADE")
        sql(url, f"DROP ROLE {name}")


def sql(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def as_role(url: str, name: str) -> str:
    return make_url(url).set(username=name, password="x").render_as_string(hide_password=False)


def opened(url: str) -> None:
    with closing(open_database(url)) as database:
        migrations.prepare(database)
        assert Crontab(database, "tester@here").nodes() == []


PWN = (
    "CREATE FUNCTION dcron.pwn(a {0}, b varchar) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
    " EXECUTE 'ALTER ROLE {1} SUPERUSER'; RETURN a::text = b::text; END $$",
    "CREATE OPERATOR dcron.= (FUNCTION = dcron.pwn, LEFTARG = {0}, RIGHTARG = varchar)",
)


def plant(url: str, evil: str) -> None:
    """Make operators in the schema that make their owner a superuser when a superuser runs them."""
    for kind in ("text", "name"):
        sql(as_role(url, evil), *(each.format(kind, evil) for each in PWN))


def is_superuser(url: str, name: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    return bool(row and row[0])


@pytest.mark.parametrize("pooled", [False, True])
def test_a_schema_that_another_role_made_first_is_refused(url: str, role: Roles, pooled: bool) -> None:
    evil = role("")
    sql(url, f"GRANT CREATE ON DATABASE {make_url(url).database} TO {evil}")
    sql(as_role(url, evil), "CREATE SCHEMA dcron")
    plant(url, evil)
    asked = f"{url}{'&' if '?' in url else '?'}pgbouncer=true" if pooled else url
    expected = (
        f"schema dcron of .* is not used: the role {evil} owns it"
        f".*ALTER DATABASE … OWNER TO {evil}.*ALTER SCHEMA dcron OWNER TO"
    )
    with pytest.raises(DatabaseError, match=expected) as failure:
        opened(asked)
    assert not is_transient(failure.value)
    assert not is_superuser(url, evil)


def test_the_verbs_refuse_it(url: str, role: Roles) -> None:
    evil = role("")
    sql(url, f"CREATE SCHEMA dcron AUTHORIZATION {evil}")
    for words in (("db", "init"), ("list",), ("info",), ("doctor",), ("agent", "--once")):
        answer = real(*words, url=url)
        assert answer.code != 0, answer
        assert f"the role {evil} owns it" in answer.err, answer
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'dcron'").fetchall() == []


@pytest.mark.parametrize("who", ["a role", "PUBLIC"])
def test_a_schema_in_which_others_may_create_is_refused(url: str, role: Roles, who: str) -> None:
    opened(url)
    evil = role("") if who == "a role" else who
    sql(url, f"GRANT USAGE, CREATE ON SCHEMA dcron TO {evil}")
    with pytest.raises(DatabaseError, match=f"the role {evil} may create objects in it"):
        opened(url)
    if who == "a role":
        plant(url, evil)
    sql(url, f"REVOKE CREATE ON SCHEMA dcron FROM {evil}")
    if who == "a role":
        with pytest.raises(DatabaseError, match=f"the role {evil} has an operator in it"):
            opened(url)
        sql(url, f"DROP OWNED BY {evil} CASCADE")
    opened(url)


@pytest.mark.parametrize(
    ("made", "act"),
    [
        ("CREATE TABLE dcron.more (a int)", "has a table in it"),
        ("CREATE VIEW dcron.more AS SELECT 1", "has a table in it"),
        (
            "CREATE FUNCTION pg_temp.spy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
            " CREATE SCHEMA {0}; ALTER FUNCTION pg_temp.spy() SET SCHEMA {0};"
            " CREATE TRIGGER spy BEFORE INSERT ON dcron.nodes FOR EACH ROW EXECUTE FUNCTION {0}.spy()",
            "has a trigger on a table in it",
        ),
    ],
)
def test_what_another_role_has_left_in_it_is_refused(url: str, role: Roles, made: str, act: str) -> None:
    opened(url)
    evil = role("")
    name = make_url(url).database
    sql(url, f"GRANT CREATE ON DATABASE {name} TO {evil}", f"GRANT USAGE, CREATE ON SCHEMA dcron TO {evil}")
    sql(url, f"GRANT ALL ON ALL TABLES IN SCHEMA dcron TO {evil}")
    sql(as_role(url, evil), made.replace("pg_temp", "dcron").format(f"{evil}_own"))
    sql(url, f"REVOKE CREATE ON SCHEMA dcron FROM {evil}")
    with pytest.raises(DatabaseError, match=f"the role {evil} {act}"):
        opened(url)


def test_roles_as_the_documentation_has_them_work(url: str, role: Roles) -> None:
    owner, agent = role(""), role("")
    sql(url, f"ALTER DATABASE {make_url(url).database} OWNER TO {owner}")
    opened(as_role(url, owner))
    sql(
        as_role(url, owner),
        f"GRANT USAGE ON SCHEMA dcron TO {agent}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dcron TO {agent}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA dcron TO {agent}",
    )
    opened(as_role(url, agent))
    opened(url)


def test_a_member_of_the_owner_is_one_of_us(url: str, role: Roles) -> None:
    owner, member = role(""), role("")
    sql(url, f"GRANT {owner} TO {member}", f"CREATE SCHEMA dcron AUTHORIZATION {owner}")
    opened(as_role(url, member))
    sql(url, f"GRANT ALL ON ALL TABLES IN SCHEMA dcron TO {owner}")
    opened(as_role(url, owner))


def test_a_group_that_may_create_is_refused_for_its_members_too(url: str, role: Roles) -> None:
    owner, group, member, evil = (role("") for _ in range(4))
    sql(
        url, f"ALTER DATABASE {make_url(url).database} OWNER TO {owner}", f"GRANT {group} TO {member}, {evil}"
    )
    opened(as_role(url, owner))
    sql(as_role(url, owner), f"GRANT USAGE, CREATE ON SCHEMA dcron TO {group}")
    for name in (owner, member):
        with pytest.raises(DatabaseError, match=f"the role {group} may create objects in it"):
            opened(as_role(url, name))


def test_info_and_doctor_judge_all_roles_of_another_schema(url: str, role: Roles) -> None:
    evil = role("")
    sql(url, "CREATE SCHEMA other")
    asked = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dother"
    opened(asked)
    assert real("info", "--json", url=asked).json["others_may_create"] is False
    sql(url, f"GRANT CREATE ON SCHEMA other TO {evil}")
    answer = real("info", "--json", url=asked)
    assert answer.json["others_may_create"] is True
    assert f"in schema other, the role {evil} may create objects in it" in answer.err
    assert "open-schema" in real("doctor", "--json", url=asked).out
