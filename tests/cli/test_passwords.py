"""Passwords of database URLs: no command shows one, not even in part, however the URL is written."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcron.database.url import PASSWORD_HINT
from tests.support.cli import Dcron
from tests.unit.test_database_url import MASKED, SHAPES, parts, passwords

WORDS = (["list"], ["db", "url", "--json"], ["info", "--json"], ["db", "init"])


def shown(dcron: Dcron, url: str, words: list[str]) -> str:
    """All that a command line shows with this database in force, given in three ways."""
    dcron.url = url
    answers = [dcron(*words), dcron("--db", url, *words), dcron(url, *words)]
    return "\n".join(answer.out + answer.err for answer in answers)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(password=passwords, shape=st.sampled_from(SHAPES), words=st.sampled_from(WORDS))
def test_no_command_shows_part_of_a_password(
    sqlite: Dcron, password: str, shape: str, words: list[str]
) -> None:
    harmless = parts(shown(sqlite, shape.format(""), words) + shown(sqlite, shape.format("k@k@k"), words))
    found = parts(password) & parts(shown(sqlite, shape.format(password), words))
    assert not found - harmless - parts(PASSWORD_HINT + MASKED)
