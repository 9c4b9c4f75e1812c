"""The text of a policy file: what is understood, and what is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcron.nodepolicy.grammar import Policy, Problem, from_published, is_plain, read

WHOLE = """\
accounts = ["deploy", "www-data"]

[[allow]]
name = "shop jobs"
task = ["shop-*"]
label = ["team=shop"]
source = ["apply:shop*"]
user = ["deploy"]
program = ["/usr/local/bin/shop-report", "/opt/shop/bin/"]
line = ["/usr/bin/flock -n /run/x.lock /opt/shop/nightly >/dev/null 2>&1"]
env = ["LANG", "LC_*", "TZ"]
cwd = ["/srv/shop/"]

[[allow]]   # another
shell = true
stdin = true
payload = true
"""


def problems(text: str) -> list[tuple[int | None, str]]:
    found = read(text)
    assert isinstance(found, list)
    return [(each.line, each.text) for each in found]


def test_a_whole_policy_is_read_with_the_lines_of_its_entries() -> None:
    policy = read(WHOLE)
    assert isinstance(policy, Policy)
    first, second = policy.allow
    assert (first.line, first.name, second.line, second.name) == (3, "shop jobs", 14, None)
    assert (str(first), str(second)) == ('line 3, "shop jobs"', "line 14")
    assert first.lines == ("/usr/bin/flock -n /run/x.lock /opt/shop/nightly >/dev/null 2>&1",)
    assert (first.shell, first.stdin, first.payload) == (False, False, False)
    assert (second.shell, second.stdin, second.payload) == (True, True, True)
    assert (policy.accounts, policy.lines["accounts"]) == (("deploy", "www-data"), 1)


def test_an_empty_file_accepts_every_account_but_root() -> None:
    policy = read("")
    assert isinstance(policy, Policy)
    assert (policy.accounts, policy.allow) == (("*",), ())


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("account = ['*']", 1, "unknown key 'account'"),
        ('\nsigners = "/etc/x"', 2, "unknown key 'signers'"),
        ("require_signature = ['root']", 1, "unknown key"),
        ("[sandbox.www]\nno_new_privs = true", 1, "unknown key 'sandbox'"),
        ("[[allow]]\nsecrets = ['env:X']", 2, "unknown key 'secrets'"),
        ("[[allow]]\nusers = ['x']", 2, "unknown key 'users'"),
        ("accounts = []", 1, "empty list"),
        ("accounts = 'deploy'", 1, "list of texts"),
        ("accounts = [0]", 1, "list of texts"),
        ("accounts = ['a b']", 1, "no name or number"),
        ("accounts = ['-x']", 1, "no name or number"),
        ("accounts = ['dep*']", 1, "no name or number"),
        ("[[allow]]\nuser = ['*']", 2, "no name or number"),
        ("[[allow]]\ntask = ['shop-?']", 2, "the only wildcard is *"),
        ("[[allow]]\nenv = ['LC_[A]']", 2, "the only wildcard is *"),
        ("[[allow]]\nlabel = ['team']", 2, "no label"),
        ("[[allow]]\nprogram = ['backup']", 2, "no absolute path"),
        ("[[allow]]\nprogram = ['/opt/../bin/sh']", 2, "has . or .. or //"),
        ("[[allow]]\nprogram = ['//bin/sh']", 2, "has . or .. or //"),
        ("[[allow]]\ncwd = ['srv/']", 2, "no absolute path"),
        ("[[allow]]\n\nshell = true\nprogram = ['/bin/true']", 3, "leave `program` out"),
        ("[[allow]]\nshell = 'yes'", 2, "true or false"),
        ("[[allow]]\nline = ['  ']", 2, "empty text"),
        ("[[allow]]\nname = 3", 2, "name is a text"),
        ("[[allow]]\nname = 'a\\u001b'", 2, "name is a text"),
        ("hosts = ['x.example.org']", 1, "unknown key 'hosts'"),
        ("archives = ['s3://x/']", 1, "unknown key 'archives'"),
        ("[allow]\nuser = ['x']", 1, "[[allow]]"),
        ("allow = 3", 1, "[[allow]]"),
        ("accounts = ['a'\n", None, "not TOML"),
        ("\naccounts = [;]\n", 2, "not TOML"),
        ("a = " + "[" * 5000, None, "not TOML"),
        ("#" * (1 << 21), None, "at most"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int | None, part: str) -> None:
    text = text.replace("'", '"') if "\\u" in text else text
    found = problems(text)
    assert any(each_line == line and part in each for each_line, each in found), found


def test_every_problem_is_named_at_once() -> None:
    assert [line for line, _ in problems("accounts = []\n[[allow]]\nuser = 3\n[[allow]]\nx = 1\n")] == [
        1,
        3,
        5,
    ]


def test_no_line_is_named_where_the_headers_are_written_in_another_way() -> None:
    policy = read('allow = [{ user = ["deploy"] }]')
    assert isinstance(policy, Policy)
    assert (policy.allow[0].line, str(policy.allow[0])) == (None, "entry 1")
    nested = read('[[allow]]\nname = "x"\nline = ["""\n[[allow]]\n"""]\n')
    assert isinstance(nested, Policy)
    assert nested.allow[0].line is None


def test_what_is_published_reads_back() -> None:
    policy = read(WHOLE)
    assert isinstance(policy, Policy)
    assert from_published(policy.published) == policy


@pytest.mark.parametrize("given", [None, {}, [], "x", {"lines": 3, "accounts": 1}, {"lines": [], "x": 1}])
def test_a_forged_publication_is_none(given: object) -> None:
    assert from_published(given) is None


@given(st.text(alphabet="[]allow=\"'\n#*/abc.", max_size=80))
def test_any_text_is_a_policy_or_has_problems(text: str) -> None:
    found = read(text)
    assert isinstance(found, Policy) or all(isinstance(each, Problem) for each in found)


@given(
    st.dictionaries(
        st.sampled_from(["accounts", "allow", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["task", "user", "program", "line", "shell"]), inner, max_size=3
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_no_content_of_another_machine_breaks_the_reader(content: dict[str, object]) -> None:
    found = from_published({**content, "lines": []})
    assert found is None or isinstance(found, Policy)


@pytest.mark.parametrize(
    ("path", "is_so"),
    [
        ("/", True),
        ("/a/b", True),
        ("a", False),
        ("/a/", False),
        ("/a/../b", False),
        ("//a", False),
        ("/./a", False),
    ],
)
def test_a_plain_path(path: str, is_so: bool) -> None:
    assert is_plain(path) is is_so
