"""The names of tasks that have none."""

import random

import pytest

from dcron.crontabfile import read


def named(*commands: str, source: str = "crontab", system: bool = False) -> list[str]:
    account = "root " if system else ""
    text = "".join(f"0 5 * * * {account}{command}\n" for command in commands)
    return [task.name for task in read(text, source=source, timezone="UTC", system=system).definitions]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("backup", "backup"),
        ("/usr/local/bin/backup.sh --all", "backup"),
        ("pg_dump shop", "pg_dump-shop"),
        ("python3 /opt/x.py", "x"),
        ("/usr/bin/env python3.11 -u /opt/x.py load", "x-load"),
        ("python3 -m certwatch", "certwatch"),
        ("php -d memory_limit=1G /srv/artisan schedule:run", "artisan-schedule-run"),
        ("bash /opt/x.sh", "x"),
        ("bash -lc 'cd /srv && ./fetch --all'", "fetch"),
        ("perl -e 'sleep rand 60' && renew it", "renew-it"),
        ("perl -e 'print 1'", "perl"),
        ("cd /srv/shop && ./import new", "import-new"),
        ("[ -x /usr/bin/a ] && /usr/bin/a -q b", "a-b"),
        ("test -x /usr/bin/a && a", "a"),
        ("if [ ! -d /run ]; then /usr/sbin/run-it now; fi", "run-it-now"),
        ("command -v sa1 > /dev/null && sa1 1 1", "sa1"),
        ("for x in 1 2; do handle $x; done", "handle"),
        ("MAILTO=me LANG=C report", "report"),
        ("nice -n 19 ionice -c 3 rsync -a /srv/ /backup/", "rsync-srv-backup"),
        ("flock -n /run/x.lock timeout -k 5 2h job", "job"),
        ("/usr/bin/flock -n /tmp/f.lock -c 'cd /srv && ./fetch.py --all'", "fetch"),
        ("sudo -u postgres vacuumdb --all", "vacuumdb"),
        ("su - www-data -c 'drush cron'", "drush-cron"),
        (
            "curl -fsS https://user:secret@status.example.org:8080/v1/ping?key=1 >/dev/null",
            "curl-status.example.org-ping",
        ),
        ("find $HOME/tmp -mtime +7 -delete", "find-tmp"),
        ("2>/dev/null tidy", "tidy"),
        ("( cd / && tidy )", "tidy"),
        ("{ tidy; }", "tidy"),
        ("sleep 30", "sleep"),
        (":", "task"),
        ("[ -x /bin/x ]", "task"),
        ("'unfinished", "unfinished"),
        ("grüße", "gr-e"),
        ("-", "task"),
    ],
)
def test_a_name_is_made_of_the_telling_words(command: str, name: str) -> None:
    assert named(command) == [name]


@pytest.mark.parametrize(
    ("source", "command", "name"),
    [
        ("/etc/cron.d/munin-node", "/etc/munin/plugins/apt_all update", "munin-node-apt_all-update"),
        ("/etc/cron.d/e2scrub_all", "/sbin/e2scrub_all_cron", "e2scrub_all_cron"),
        ("/etc/cron.d/popularity-contest", "/usr/sbin/popularity-contest --crond", "popularity-contest"),
        ("/etc/cron.d/logrotate-hourly", "logrotate /etc/app", "logrotate-hourly-app"),
        ("/etc/cron.d/x", ":", "x"),
        ("/etc/crontab", "run-parts /etc/cron.daily", "run-parts-cron.daily"),
        ("-", "tidy", "tidy"),
    ],
)
def test_a_system_files_own_name_comes_first(source: str, command: str, name: str) -> None:
    assert named(command, source=source, system=True) == [name]


def test_a_users_file_gives_no_prefix() -> None:
    assert named("tidy", source="/home/ann/cron.txt") == ["tidy"]


def test_lines_that_clash_both_take_more_words() -> None:
    assert named("sa1 1 1", "other", "sa1 60 2") == ["sa1-1-1", "other", "sa1-60-2"]


def test_lines_that_still_clash_take_a_hash_of_what_they_say() -> None:
    text = "0 5 * * * x\n0 6 * * * x\n"
    first, second = read(text, source="c", timezone="UTC").definitions
    assert first.name.startswith("x-")
    assert len(first.name) == len(second.name) == len("x-123456")
    assert first.name != second.name


def test_moving_lines_renames_nothing() -> None:
    lines = [
        f"{minute} * * * * {command}\n"
        for minute in (1, 2)
        for command in ("a b", "a c", "a c 1", "d", "a b")
    ]
    before = read("".join(lines), source="c", timezone="UTC").definitions
    random.Random(7).shuffle(lines)
    after = read("".join(lines), source="c", timezone="UTC").definitions
    assert sorted(before, key=lambda task: task.name) == sorted(after, key=lambda task: task.name)


def test_other_lines_rename_nothing() -> None:
    alone = named("pg_dump shop")
    assert named("tidy", "pg_dump shop", "pg_dump stock")[1:2] == alone


def test_identical_lines_are_numbered_with_a_warning() -> None:
    crontab = read("@daily x\n@hourly y\n@daily x\n@daily x\n", source="c", timezone="UTC")
    assert [task.name for task in crontab.definitions] == ["x", "y", "x-2", "x-3"]
    assert [(notice.line, notice.message) for notice in crontab.warnings] == [
        (3, "this is the same as line 1; it becomes another task, x-2"),
        (4, "this is the same as line 1; it becomes another task, x-3"),
    ]


def test_a_given_name_is_left_to_the_task_that_has_it() -> None:
    text = "@daily x\n@hourly x 1\n#dcron: name=x\n@weekly y\n#dcron: name=x-1\n@monthly z\n"
    names = [task.name for task in read(text, source="c", timezone="UTC").definitions]
    assert names[2:] == ["x", "x-1"]
    assert len(set(names)) == 4


def test_long_commands_give_short_names() -> None:
    (name,) = named("run " + " ".join(f"argument{number}" for number in range(100)))
    assert len(name) <= 48
    (name,) = named("x" * 3000)
    assert len(name) <= 48


def test_secrets_in_options_stay_out_of_short_names() -> None:
    assert named("mysqldump --password=secret shop") == ["mysqldump-shop"]
