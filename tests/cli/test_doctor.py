"""`dcron doctor` on the command line: a line for each finding, and its exit codes."""

from tests.support.cli import Dcron, on_terminal


def test_a_finding_is_one_line_and_exit_code_1(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "0 2 * * *", "true")
    examined = dcron("doctor")
    assert examined.code == 1
    lines = [line for line in examined.out.splitlines() if not line.startswith("durability")]
    assert lines == [
        "no-agent: no agent is running; 1 task cannot start; start `dcron agent` on at least one server"
    ]


def test_json_has_the_parts_of_each_finding(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "0 2 * * *", "true")
    findings = dcron("doctor", "--json").json["findings"]
    (finding,) = [each for each in findings if each["code"] != "durability"]
    assert finding == {
        "code": "no-agent",
        "message": "no agent is running",
        "problem": "no agent is running",
        "effect": "1 task cannot start",
        "advice": "start `dcron agent` on at least one server",
        "subjects": [],
    }


def test_on_a_terminal_lines_end_between_words_and_commands_stay_whole(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "backup", "0 2 * * *", "true")
    shown = on_terminal("doctor", url=sqlite.url, size=(24, 24), NO_COLOR="1").out
    assert shown.splitlines() == [
        "no-agent",
        "  no agent is running",
        "  1 task cannot start",
        "  start `dcron agent` on",
        "    at least one server",
    ]


def test_without_findings_the_exit_code_is_0(sqlite: Dcron) -> None:
    sqlite.done("db", "init")
    examined = sqlite.done("doctor", "--deep")
    assert (examined.out, examined.err) == ("", "the doctor found nothing\n")


def test_a_database_that_is_away_is_exit_code_3(sqlite: Dcron) -> None:
    assert sqlite("doctor", "--db", "postgresql://nobody@127.0.0.1:1/none").code == 3
