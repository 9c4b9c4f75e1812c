"""`dcron diff` and `dcron apply`: the tasks of a source become what its files say."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dcron.cli.asking import completion
from tests.support.cli import Dcron

SHOP = ("--source", "shop/cron")
TEXT = """\
CRON_TZ=UTC
#dcron: name=backup timeout=1h
30 2 * * * backup --full
#dcron: name=report schedule="@after backup"
#dcron$ report
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.cron"
    path.write_text(TEXT)
    return path


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_diff_apply_diff(sqlite: Dcron, file: Path) -> None:
    sqlite.done("db", "init")
    differs = sqlite("diff", "-F", str(file), *SHOP)
    assert (differs.code, differs.out.splitlines()[-1]) == (1, "shop/cron: 2 added, 0 unchanged")
    applied = sqlite.done("apply", "-F", str(file), *SHOP, "-m", "release 42")
    assert "applied; `dcron undo --batch b" in applied.out
    assert sqlite.done("diff", "-F", str(file), *SHOP).out == "shop/cron: 2 unchanged\n"
    assert sqlite.done("apply", "-F", str(file), *SHOP).out == "shop/cron: 2 unchanged\n"
    history = sqlite.done("history", "--json").json
    assert {(each["via"], each["note"], each["after"]["source"]) for each in history} == {
        ("apply", "release 42", "shop/cron")
    }
    assert "apply shop/cron" in sqlite.done("history").out


def test_the_document_has_all_that_was_done(sqlite: Dcron, file: Path) -> None:
    sqlite.done("apply", "-F", str(file), *SHOP)
    sqlite.done("add", "-n", "mine", "@daily", "true")
    change(file, "name=backup timeout=1h", "name=saved was=backup")
    change(file, "@after backup", "@after saved")
    file.write_text(file.read_text() + "\n#dcron: name=mine\n@daily true\n")
    planned = sqlite("diff", "-F", str(file), *SHOP, "--adopt", "--json")
    assert (planned.code, planned.json["batch"], planned.json["dry_run"]) == (1, None, True)
    done = sqlite.done("apply", "-F", str(file), *SHOP, "--adopt", "--json").json
    assert done["batch"]
    assert done == planned.json | {"dry_run": False, "batch": done["batch"]}
    assert (done["changed"], done["adopted"], done["renamed"]) == (
        ["saved", "report"],
        ["mine"],
        {"saved": "backup"},
    )
    again = sqlite.done("apply", "-F", str(file), *SHOP, "--json").json
    assert (again["unchanged"], again["batch"]) == (["saved", "report", "mine"], None)


def test_a_conflict_is_shown_with_both_differences_and_ends_with_5(sqlite: Dcron, file: Path) -> None:
    sqlite.done("apply", "-F", str(file), *SHOP)
    noted = sqlite.done("set", "backup", "--timeout", "2h", "-m", "hung twice")
    assert "backup belongs to shop/cron" in noted.err
    change(file, "timeout=1h", "timeout=3h")
    differs = sqlite("diff", "-F", str(file), *SHOP)
    assert differs.code == 5
    assert re.search(r"timeout: 1h -> 2h   \(.+@.+, 20.+Z: hung twice\)", differs.out)
    for part in ("hung twice", "by hand:", "timeout=2h", "the files:", "timeout=3h", "1 in conflict"):
        assert part in differs.out
    refused = sqlite("apply", "-F", str(file), *SHOP)
    assert refused.code == 5
    assert refused.err.count("changed by hand since") == 1
    assert "--overwrite" not in refused.out
    for part in ("conflict  backup", "by hand:", "timeout=2h", "the files:", "timeout=3h"):
        assert part in refused.out
    refused = sqlite("apply", "-F", str(file), *SHOP, "--json")
    assert refused.code == 5
    (conflict,) = refused.json["conflicts"]
    assert (conflict["name"], conflict["note"]) == ("backup", "hung twice")
    assert [(each["field"], each["note"]) for each in conflict["fields"]] == [("timeout", "hung twice")]
    assert "--overwrite" in refused.err
    assert "changed by hand" in sqlite.done("view", "backup").out
    assert [task["name"] for task in sqlite.done("list", "--drifted", "--json").json] == ["backup"]
    sqlite.done("apply", "-F", str(file), *SHOP, "--overwrite")
    assert sqlite.done("list", "--drifted", "--names").out == ""
    assert sqlite.done("list", "--source", "shop/cron", "--names").out == "backup\nreport\n"


def test_names_of_others_are_refused(sqlite: Dcron, file: Path) -> None:
    sqlite.done("add", "-n", "backup", "@daily", "true")
    refused = sqlite("apply", "-F", str(file), *SHOP)
    assert (refused.code, refused.err.count("--adopt")) == (1, 1)
    assert "refused  backup\n" in refused.out
    assert "--adopt" not in refused.out
    assert sqlite.done("list", "--names").out == "backup\n"
    assert sqlite("diff", "-F", str(file), *SHOP).code == 1


def test_a_source_that_has_no_tasks_is_named_with_those_that_have(sqlite: Dcron, file: Path) -> None:
    message = "--take-from: warning: no task belongs to the source web/corn"
    nothing = sqlite.done("apply", "-F", str(file), *SHOP, "--take-from", "web/corn")
    assert f"{message}; no source has tasks\n" in nothing.err
    sqlite.done("apply", "-F", str(file), *SHOP, "--prune", "--take-from", "shop/cron")
    refused = sqlite("apply", "-F", str(file), "--source", "web/cron", "--take-from", "shop/corn")
    assert refused.code == 1
    assert (
        "no task belongs to the source shop/corn; the sources are shop/cron; did you mean shop/cron?\n"
        in refused.err
    )
    assert "backup belongs to shop/cron; --take-from shop/cron takes it over" in refused.err
    (warning,) = sqlite("diff", "-F", str(file), *SHOP, "--take-from", "x", "--json").json["warnings"]
    assert warning == {
        "place": "--take-from",
        "message": "no task belongs to the source x; the sources are shop/cron",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@daily true\n", "shop.cron:1: the task has no name"),
        ("#dcron: name=a\n99 * * * * true\n", "shop.cron:2:"),
        ("#dcron: name=a\n0 0 30 2 * true\n", "shop.cron:2: a: "),
        (
            '#dcron: name=a schedule="@after b"\n#dcron$ x\n',
            "shop.cron:2: a: @after b: there is no such task",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["diff", "apply"])
def test_a_mistake_is_shown_with_its_place_and_nothing_is_written(
    sqlite: Dcron, file: Path, verb: str, text: str, message: str
) -> None:
    sqlite.done("db", "init")
    file.write_text(text)
    bad = sqlite(verb, "-F", str(file), *SHOP)
    assert bad.code == 2
    assert message in bad.err
    assert "nothing was changed" in bad.err
    assert sqlite.done("list", "--names").out == ""


def test_a_folder_and_stdin_are_sources_too(sqlite: Dcron, file: Path) -> None:
    extra = [{"name": "extra", "schedule": "@daily", "command": "true"}]
    (file.parent / "more.json").write_text(json.dumps(extra))
    sqlite.done("apply", "-F", str(file.parent), *SHOP)
    assert sqlite.done("list", "--names").out == "backup\nextra\nreport\n"
    exported = sqlite.done("export").out.encode()
    assert sqlite.done("diff", "-F", "-", *SHOP, "--prune", stdin=exported).out == "shop/cron: 3 unchanged\n"


def test_a_dry_run_changes_nothing(sqlite: Dcron, file: Path) -> None:
    tried = sqlite.done("apply", "-F", str(file), *SHOP, "--dry-run")
    assert tried.out.endswith("shop/cron: 2 added, 0 unchanged\nnothing was changed\n")
    assert sqlite.done("list", "--names").out == ""


@pytest.mark.slow
def test_a_wrong_file_does_not_empty_the_crontab(sqlite: Dcron, file: Path) -> None:
    many = "".join(f"#dcron: name=t{number}\n@daily true\n" for number in range(12))
    file.write_text(many)
    sqlite.done("apply", "-F", str(file), *SHOP)
    file.write_text("")
    assert "12 extra" in sqlite.done("apply", "-F", str(file), *SHOP).out
    refused = sqlite("apply", "-F", str(file), *SHOP, "--prune", "--json")
    assert (refused.code, "no tasks" in refused.json["obstacle"]) == (1, True)
    file.write_text("#dcron: name=t0\n@daily true\n")
    refused = sqlite("apply", "-F", str(file), *SHOP, "--prune")
    assert (refused.code, (refused.out + refused.err).count("--max-removed 11")) == (1, 1)
    assert "--max-removed" in refused.err
    assert refused.out.startswith("refused  ")
    assert "would remove  t1" in refused.out
    assert "\nremoved" not in refused.out
    sqlite.done("apply", "-F", str(file), *SHOP, "--prune", "--max-removed", "11")
    assert sqlite.done("list", "--names").out == "t0\n"


@pytest.mark.slow
def test_changes_of_owned_tasks_can_be_refused(
    sqlite: Dcron, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite.done("apply", "-F", str(file), *SHOP)
    sqlite.done("config", "set", "edits.owned", "refuse")
    monkeypatch.setenv("VISUAL", "sed -i s/1h/2h/")
    for words in (("set", "backup", "--timeout", "2h"), ("rm", "-f", "backup"), ("edit", "-f")):
        refused = sqlite(*words)
        assert refused.code == 1
        assert "belongs to shop/cron" in refused.err
    sqlite.done("pause", "backup")
    change(file, "timeout=1h", "timeout=3h")
    sqlite.done("apply", "-F", str(file), *SHOP)
    sqlite.done("undo", "--force", "backup")
    assert sqlite("config", "set", "edits.owned", "maybe").code == 2


@pytest.mark.slow
def test_apply_in_a_protected_context_needs_its_name(
    sqlite: Dcron, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = file.with_name("config.toml")
    config.write_text(f'[context.prod]\ndatabase = "{sqlite.url}"\nprotected = true\n')
    config.chmod(0o600)
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    sqlite.url = ""
    apply = ("-c", "prod", "apply", "-F", str(file), *SHOP)
    assert sqlite(*apply, "--force").code == 1
    assert sqlite.done("-c", "prod", "list", "--names").out == ""
    sqlite.done(*apply, "--confirm", "prod")
    file.write_text("".join(TEXT.splitlines(keepends=True)[:3]))
    refused = sqlite(*apply, "--prune")
    assert (refused.code, "--confirm prod" in refused.err) == (1, True)
    assert sqlite.done("-c", "prod", "list", "--names").out == "backup\nreport\n"
    sqlite.done(*apply, "--prune", "--confirm", "prod")
    assert sqlite.done("-c", "prod", "list", "--names").out == "backup\n"


def test_the_names_of_sources_are_completed(sqlite: Dcron, file: Path) -> None:
    sqlite.done("apply", "-F", str(file), *SHOP)
    root = SimpleNamespace(obj=None)
    verb = SimpleNamespace(info_name="apply", params={"db": sqlite.url}, parent=None, find_root=lambda: root)
    assert completion.offers("SOURCE", verb, "sh") == [("shop/cron", "")]
