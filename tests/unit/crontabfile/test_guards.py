"""Lines whose exit code is that of a check: cron ignores it, dcron counts a failure."""

import pytest

from dcron.crontabfile import read
from dcron.crontabfile.guards import failing_guard

FAILING = {
    "test -x /usr/bin/x -a \\! -d /run && perl -e 'sleep int(rand(9))' && x -q": (
        "if test -x /usr/bin/x -a \\! -d /run; then perl -e 'sleep int(rand(9))' && x -q; fi"
    ),
    "command -v x > /dev/null && x 1 1": "if command -v x > /dev/null; then x 1 1; fi",
    "[ -x /x ] && if [ ! -d /run ]; then /x; fi": "if [ -x /x ]; then if [ ! -d /run ]; then /x; fi; fi",
    "[ -x a ] && [ -d b ] && a": "if [ -x a ] && [ -d b ]; then a; fi",
    "[ -x a ] && (b; c)": "if [ -x a ]; then (b; c); fi",
    "[ -x a ] && { b; c; }": "if [ -x a ]; then { b; c; }; fi",
    "! test -e a && b | mail c": "if ! test -e a; then b | mail c; fi",
    '[ "$(date +%u)" = 1 ] && echo "a; b"': 'if [ "$(date +%u)" = 1 ]; then echo "a; b"; fi',
    "which x >/dev/null 2>&1 && x": "if which x >/dev/null 2>&1; then x; fi",
}
OTHERS = [
    "test -e /run/systemd/system || /sbin/e2scrub_all",
    "test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }",
    "cd / && run-parts --report /etc/cron.hourly",
    "[ -x a ] && a || true",
    "[ -x a ] && a; b",
    "[ -x a ] && a &",
    "if [ -x a ] && [ $(date +%d) -le 7 ]; then a; fi",
    "test -x a",
    "test -x a && test -x b",
    "",
    "&& a",
    "[ -x a ] && " + "a" * 1000,
]


@pytest.mark.parametrize("command", FAILING)
def test_a_failing_guard_is_found_with_the_form_to_use(command: str) -> None:
    assert failing_guard(command) == FAILING[command]
    assert failing_guard(FAILING[command]) is None


@pytest.mark.parametrize("command", OTHERS)
def test_other_lines_are_left_alone(command: str) -> None:
    assert failing_guard(command) is None


def test_the_form_is_written_as_a_crontab_has_it() -> None:
    read_file = read('0 4 * * * [ "$(date +\\%u)" = 1 ] && x\n', source="f", timezone="UTC")
    [notice] = read_file.warnings
    assert (notice.line, notice.code) == (1, "guard-fails")
    assert notice.message.endswith('write if [ "$(date +\\%u)" = 1 ]; then x; fi')
