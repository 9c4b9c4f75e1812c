"""The audit log has the login that the server knows, not only the name that the client gives."""

import os
import pwd

import pytest
from sqlalchemy import select
from sqlalchemy.engine import make_url

from dcron.database import Database
from dcron.errors import Conflict
from dcron.model import Definition
from dcron.schema.tables import changes
from dcron.services.crontab import Crontab

LINE = Definition(name="nightly", schedule="30 2 * * *", timezone="UTC", command="backup")


def login_of(url: str) -> str:
    account = pwd.getpwuid(os.geteuid()).pw_name
    return account if url.startswith("sqlite") else str(make_url(url).username)


def test_every_change_has_the_login_that_made_it(database: Database, empty_database_url: str) -> None:
    crontab = Crontab(database, "admin@elsewhere")
    task = crontab.add(LINE)
    crontab.pause(task, "release")
    crontab.import_tasks([LINE, Definition(name="other", schedule="@daily", timezone="UTC", command="x")])
    with database.read() as connection:
        logins = list(connection.scalars(select(changes.c.login)))
    assert len(logins) >= 3
    assert set(logins) == {login_of(empty_database_url)}


@pytest.mark.slow
def test_who_is_not_who_he_says_is_shown_with_the_login(database: Database, empty_database_url: str) -> None:
    crontab, login = Crontab(database, "admin@elsewhere"), login_of(empty_database_url)
    task = crontab.add(LINE)
    crontab.edit(task, {"command": "other"})
    with pytest.raises(Conflict, match=rf"admin@elsewhere \(as {login}\), "):
        crontab.edit(task, {"command": "third"})


def test_one_who_is_who_he_says_is_shown_as_ever(database: Database, empty_database_url: str) -> None:
    login = login_of(empty_database_url)
    crontab = Crontab(database, f"{login}@here")
    task = crontab.add(LINE)
    crontab.edit(task, {"command": "other"})
    with pytest.raises(Conflict, match=rf"\({login}@here, "):
        crontab.edit(task, {"command": "third"})
