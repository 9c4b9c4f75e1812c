"""Run docs/crontab-in-git.md as it is printed there: with a real git, and the steps of its CI."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "crontab-in-git.md").read_text()
BATCH = re.compile(r"\bb[0-9a-z]{9}\b")
ANY = "…"
"""What the page does not print: any lines where it is a line, any text within one."""


class Repository:
    """The repository of the page, with two crontabs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "repository"
        self.databases = {name: f"sqlite:///{directory}/{name}.db" for name in ("staging", "prod")}
        self.batch = ""
        config = directory / "config" / "dcron" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(
            "".join(f'[context.{name}]\ndatabase = "{url}"\n' for name, url in self.databases.items())
        )
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("DCRON", "GIT"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(directory / "config"),
            **{
                f"GIT_{who}_{what}": "ann@example.org"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self.directory.mkdir()
        self.run("git init -q -b main; dcron -c staging db init; dcron -c prod db init")

    def run(self, command: str, **environment: str) -> tuple[int, str]:
        """Return the exit code and stdout of a shell command; the last batch replaces that of the page."""
        done = subprocess.run(
            ["bash", "-ec", BATCH.sub(self.batch, command)],
            cwd=self.directory,
            env=self._environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.batch = next(iter(BATCH.findall(done.stdout)[-1:]), self.batch)
        assert done.returncode in (0, 1, 5), done.stderr
        return done.returncode, done.stdout

    def job(self, name: str) -> list[int]:
        """Run the steps of a job of the page's CI; return their exit codes."""
        workflow = yaml.safe_load((self.directory / ".github/workflows/crontab.yml").read_text())
        secrets = {f"{name.upper()}_DB": url for name, url in self.databases.items()}
        job = workflow["jobs"][name]
        environment = {
            key: secrets[re.fullmatch(r"\$\{\{ secrets\.(\w+) \}\}", value)[1]]  # type: ignore[index]
            for key, value in {**workflow["env"], **job.get("env", {})}.items()
        }
        return [self.run(step["run"], **environment)[0] for step in job["steps"] if "run" in step]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    for name, text in re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        file = made.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return made


def sessions(section: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each command of a section, with the exit code and the lines that the page prints."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for session in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in session.removeprefix("$ ").split("\n$ "):
            command, *lines = part.rstrip("\n").split("\n")
            code = re.fullmatch(r"\[exit code (\d)\]", lines[-1]) if lines else None
            yield command, int(code[1]) if code else 0, lines[:-1] if code else lines


def pattern(lines: list[str]) -> str:
    """Return the regular expression of what the page prints."""
    found = ""
    for line in lines:
        text = ".*".join(map(re.escape, BATCH.sub("BATCH", line).split(ANY)))
        found += r"(?:.*\n)*" if line == ANY else rf"{text}\s*\n"
    return found


def play(repository: Repository, section: str, commands: slice = slice(None)) -> None:
    """Run commands of a section, and compare what they print."""
    for command, code, lines in list(sessions(section))[commands]:
        done, out = repository.run(command)
        assert (command, done) == (command, code)
        assert re.fullmatch(pattern(lines), BATCH.sub("BATCH", out)), f"$ {command}\n{out}"


@pytest.mark.slow
@pytest.mark.long
def test_the_page_runs_as_it_is_printed(repository: Repository) -> None:
    play(repository, "The first time")
    repository.run("git add . && git commit -q -m 'Keep the crontab in git'")
    assert repository.job("check") == [0, 0]
    assert repository.job("apply") == [0]

    play(repository, "A change", slice(4))
    assert repository.job("check") == [0, 0]
    assert repository.job("drift") == [1]
    play(repository, "A change", slice(4, 5))
    repository.run("git switch -q main && git merge -q longer-dump")
    assert repository.job("apply") == [0]
    assert repository.job("drift") == [0]
    play(repository, "A change", slice(5, None))

    play(repository, "A change by hand")
    assert repository.job("apply") == [0]
    play(repository, "To production")
    assert repository.job("promote") == [0]
    assert repository.job("promote") == [0]
    _, out = repository.run("dcron -c prod export")
    assert "PGHOST=db-prod" in out
    assert "name=check-dump" in out
    repository.run("dcron -c staging history -n 1")  # its batch is the one to undo
    play(repository, "Back again")
