"""A suggested policy allows exactly the commands it was made of; the doubts about a policy."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.nodepolicy.command import Finished, finished
from dcron.nodepolicy.doubts import doubts
from dcron.nodepolicy.grammar import Policy, read
from dcron.nodepolicy.judge import judge
from dcron.nodepolicy.machine import ThisMachine
from dcron.nodepolicy.suggest import Suggested, suggest

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
LINES = TEXTS.filter(str.strip)
PROGRAMS = st.sampled_from(["/usr/bin/true", "true", "/usr/bin/id", "id", "./x", "no-such-program"])
NAMES = st.sampled_from(["LANG", "PATH", "BASH_ENV", "A"])
SPECS = st.fixed_dictionaries(
    {"user": st.sampled_from(["root", "daemon", "bin"])},
    optional={
        "env": st.dictionaries(
            st.sampled_from(["LANG", "PATH", "BASH_ENV", "A"]), st.just("/usr/bin"), max_size=2
        ),
        "cwd": st.sampled_from(["/tmp", "/srv/x", "/"]),
        "stdin": TEXTS,
        "shell": st.sampled_from(["/bin/bash", "/usr/bin/zsh"]),
    },
)
BODIES = st.one_of(
    st.builds(lambda line: {"command": line}, LINES),
    st.builds(lambda program, words: {"argv": [program, *words]}, PROGRAMS, st.lists(TEXTS, max_size=2)),
)


@st.composite
def commands(draw: st.DrawFn, prefix: str) -> list[Finished]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        spec = {**draw(SPECS), **draw(BODIES)}
        labels = draw(st.sampled_from([{}, {"team": f"{prefix}1"}, {"team": f"{prefix}2"}]))
        payload = draw(st.booleans())
        home = ThisMachine().home(spec["user"])
        found.append(finished(f"{prefix}-{number}", labels, None, spec, home, payload=payload))
    return found


def policy_for(given_commands: list[Finished]) -> Policy:
    text = suggest([Suggested(each, each.user or "root") for each in given_commands], ThisMachine())
    found = read(text)
    assert isinstance(found, Policy), (text, found)
    return found


@given(commands("shop"), commands("pay"))
def test_a_suggestion_allows_all_of_one_crontab_and_nothing_of_another(
    own: list[Finished], others: list[Finished]
) -> None:
    policy, machine = policy_for(own), ThisMachine()
    for each in own:
        assert judge(policy, each, machine).allowed, judge(policy, each, machine)
    for each in others:
        assert not judge(policy, each, machine).allowed


def test_a_suggestion_of_nothing_is_a_policy() -> None:
    assert policy_for([]).accounts == ("*",)


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ('program = ["/usr/bin/python3"]', "runs whatever its arguments name"),
        ('program = ["/bin/sh"]', "runs whatever its arguments name"),
        ('program = ["/usr/bin/"]', "allows shells and interpreters"),
        ('program = ["/"]', "allows every program"),
        ('program = ["/no/such/program"]', "there is no /no/such/program here"),
        ('user = ["daemon"]', "allows every program, also a shell"),
        ('user = ["no-such-user"]\nline = ["a"]', "there is no account"),
        ('user = ["root"]\nline = ["a"]', "not among the accounts of the policy"),
        ("shell = true", "allows every command"),
    ],
)
def test_doubts(entry: str, part: str) -> None:
    policy = read(f"\n[[allow]]\n{entry}\n")
    assert isinstance(policy, Policy)
    found = list(doubts(policy, ThisMachine()))
    assert any(part in each.text and each.line == 2 for each in found), found


def test_a_program_that_its_account_or_everyone_can_replace(tmp_path: Path) -> None:
    program = tmp_path / "job"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)
    policy = read(f'[[allow]]\nprogram = ["{program}"]\n')
    assert isinstance(policy, Policy)
    assert "every account can write" in " ".join(map(str, doubts(policy, ThisMachine())))


def test_a_tight_policy_gives_no_doubts() -> None:
    policy = read(
        'accounts = ["daemon"]\n[[allow]]\nuser = ["daemon"]\nprogram = ["/usr/bin/true"]\nline = ["id"]\n'
    )
    assert isinstance(policy, Policy)
    assert list(doubts(policy, ThisMachine())) == []
