"""No machine in between gets the password, and no foreign operator runs with dcron's rights."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.engine import make_url

from dcron import migrations
from dcron.database import SCHEMA, connecting, is_transient, open_database
from dcron.errors import DatabaseError
from dcron.services.crontab import Crontab

SSL_REQUEST = 80877103
CLEARTEXT = b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big")


class Impostor:
    """Answers in a server's place: without TLS, and asking for the password in clear."""

    def __init__(self) -> None:
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(5)
                self._talk(peer)

    def _talk(self, peer: socket.socket) -> None:
        try:
            while message := peer.recv(4096):
                self.received += message
                if int.from_bytes(message[4:8], "big") == SSL_REQUEST:
                    peer.sendall(b"N")
                else:
                    peer.sendall(CLEARTEXT)
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def impostor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Impostor]:
    """One that is taken for another machine."""
    monkeypatch.setattr(connecting, "_is_local", lambda host: False)
    with closing(Impostor()) as made:
        yield made


@pytest.mark.parametrize("asked", ["", "?sslmode=prefer"])
def test_the_password_is_not_given_to_an_impostor(impostor: Impostor, asked: str) -> None:
    database = open_database(f"postgresql://ann:s3cret@127.0.0.1:{impostor.port}/cron{asked}")
    with pytest.raises(DatabaseError, match="proves who it is") as failure, database.read():
        pass
    assert impostor.received
    assert b"s3cret" not in impostor.received
    assert "s3cret" not in str(failure.value)
    helps = "?require_auth=md5" if asked else "?sslmode=disable"
    assert helps in str(failure.value)
    assert not is_transient(failure.value)
    database.close()


def test_a_listener_on_this_machine_gets_no_password_in_clear() -> None:
    with closing(Impostor()) as here:
        database = open_database(f"postgresql://ann:s3cret@127.0.0.1:{here.port}/cron")
        with pytest.raises(DatabaseError, match=r"require_auth") as failure, database.read():
            pass
        assert here.received
        assert b"s3cret" not in here.received
        assert not is_transient(failure.value)
        database.close()


@pytest.mark.slow
def test_only_a_url_that_says_so_lets_the_password_go(impostor: Impostor) -> None:
    database = open_database(
        f"postgresql://ann:s3cret@127.0.0.1:{impostor.port}/cron?sslmode=prefer&require_auth=password"
    )
    with pytest.raises(DatabaseError), database.read():
        pass
    assert b"s3cret" in impostor.received
    database.close()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, empty_database_url: str) -> str:
    """The URL of an empty Postgres database."""
    if empty_database_url.startswith("sqlite"):
        pytest.skip("SQLite has neither schemas nor operators of others")
    return empty_database_url


def admin_of(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url, autocommit=True)


def test_tables_get_a_schema_of_their_own(postgres_url: str) -> None:
    with closing(open_database(postgres_url)) as database:
        migrations.prepare(database)
        assert Crontab(database, "tester@here").nodes() == []
        with database.read() as connection:
            protection = database.protection(connection)
    assert protection is not None
    assert (protection.schema, protection.others_may_create) == (SCHEMA, False)
    with admin_of(postgres_url) as admin:
        made = admin.execute(
            "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename = 'crontab'"
        ).fetchall()
    assert made == [(SCHEMA,)]


def test_tables_that_others_use_in_public_stay_there(postgres_url: str) -> None:
    with closing(
        open_database(f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3Dpublic,x")
    ) as first:
        migrations.prepare(first)
    with closing(open_database(postgres_url)) as database:
        migrations.prepare(database)
        with database.read() as connection:
            protection = database.protection(connection)
    assert protection is not None
    assert protection.schema == "public"


def test_a_pooler_that_shares_sessions_gets_the_schema_with_each_transaction(postgres_url: str) -> None:
    pooled = f"{postgres_url}{'&' if '?' in postgres_url else '?'}pgbouncer=true"
    with closing(open_database(pooled)) as database:
        migrations.prepare(database)
        assert Crontab(database, "tester@here").nodes() == []
    with closing(open_database(postgres_url)) as database, database.read() as connection:
        protection = database.protection(connection)
        assert protection is not None
        assert protection.schema == SCHEMA


@pytest.mark.slow
@pytest.mark.parametrize("prepared", [False, True])
def test_an_operator_of_another_role_is_never_run(postgres_url: str, prepared: bool) -> None:
    """The first queries compare names with texts: an operator in `public` that fits exactly would win."""
    if prepared:
        with closing(open_database(postgres_url)) as database:
            migrations.prepare(database)
    with admin_of(postgres_url) as admin:
        admin.execute("CREATE TABLE public.caught (by text)")
        for left, right in (("name", "varchar"), ("name", "text"), ("text", "varchar"), ("name", "name")):
            admin.execute(
                f"CREATE FUNCTION public.spy(a {left}, b {right}) RETURNS boolean LANGUAGE plpgsql AS $$"
                f" BEGIN INSERT INTO public.caught VALUES ('{left} {right}');"
                " RETURN a::text = b::text; END $$"
            )
            if (left, right) != ("name", "name"):
                admin.execute(
                    f"CREATE OPERATOR public.= (FUNCTION = public.spy, LEFTARG = {left}, RIGHTARG = {right})"
                )
    with closing(open_database(postgres_url)) as database:
        crontab = Crontab(database, "tester@here")
        assert crontab.nodes() == []
        with database.write() as connection:
            connection.execute(text("SELECT 1"))
    with admin_of(postgres_url) as admin:
        assert admin.execute("SELECT * FROM public.caught").fetchall() == []


def test_a_role_that_may_make_no_schema_uses_the_one_it_has(postgres_url: str, postgres_server: str) -> None:
    name = make_url(postgres_url).database
    role = f"{name}_guest"
    with admin_of(postgres_url) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        admin.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    guest = make_url(postgres_url).set(username=role, password="x").render_as_string(hide_password=False)
    try:
        with closing(open_database(guest)) as database:
            migrations.prepare(database)
            assert Crontab(database, "tester@here").nodes() == []
            with database.read() as connection:
                protection = database.protection(connection)
        assert protection is not None
        assert protection.schema == "public"
    finally:
        with admin_of(postgres_url) as admin:
            admin.execute(f"DROP OWNED BY {role} CASCADE")
            admin.execute(f"DROP ROLE {role}")


def test_a_server_without_a_timeline_leaves_the_transaction_usable(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_database(postgres_url)) as database:
        with database.write() as connection:
            assert re.fullmatch("[0-9A-F]{8}", database.timeline(connection) or "")
        monkeypatch.setattr("dcron.database.postgres._TIMELINE", select(func.no_such_function()))
        with database.write() as connection:
            assert database.timeline(connection) is None
            assert connection.scalar(text("SELECT 1")) == 1


def test_after_a_reconnect_the_clock_of_the_last_server_is_forgotten(postgres_url: str) -> None:
    with closing(open_database(postgres_url)) as database:
        with database.read() as connection:
            database.read_clock(connection)
        assert database.recent_now() is not None
        database.close()
        with database.read():
            assert database.recent_now() is None
