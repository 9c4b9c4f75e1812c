"""The version tells builds apart, with and without git."""

import shutil
from pathlib import Path

from tests.install.conftest import Built, Place


def clone(place: Place, source: Path, target: Path) -> None:
    """Clone the checkout without its tags."""
    place("git", "clone", "-q", "--no-tags", source, target)
    place("git", "-C", target, "config", "user.name", "Ada")
    place("git", "-C", target, "config", "user.email", "ada@example.org")


def commit(place: Place, source: Path, text: str) -> None:
    """Commit a change."""
    with (source / "README.md").open("a") as file:
        file.write(text)
    place("git", "-C", source, "commit", "-q", "-a", "-m", text)


def wheel_of(place: Place, tools: Path, source: Path, name: str) -> Path:
    """Build a wheel alone."""
    place(tools / "python", "-m", "build", "--wheel", "--outdir", place.home / name, source)
    [wheel] = (place.home / name).iterdir()
    return wheel


def test_a_newer_wheel_replaces_an_older_one(built: Built, source: Path, tools: Path, place: Place) -> None:
    newer = place.home / "newer"
    clone(place, source, newer)
    commit(place, newer, "A change")
    bin_directory = place.environment("venv")
    url = f"sqlite:///{place.home}/nodes.db"
    shown = []
    for wheel in (built.wheel, wheel_of(place, tools, newer, "wheels")):
        place(bin_directory / "pip", "install", "-q", "-U", wheel)
        shown.append(place(bin_directory / "dcron", "--version").split()[1])
        assert shown[-1] == wheel.name.split("-")[1]
        place(bin_directory / "dcron", "db", "init", DCRON_DB=url)
        place(bin_directory / "dcron", "agent", "--once", DCRON_DB=url)
        assert shown[-1] in place(bin_directory / "dcron", "nodes", "--json", DCRON_DB=url)
    assert shown[0] != shown[1]


def version_of(place: Place, tools: Path, source: Path) -> str:
    """Return the version that a build of this directory gets."""
    return place(tools / "python", "-m", "hatchling", "version", cwd=source).strip()


def test_the_version_follows_the_tag_and_the_commit(source: Path, tools: Path, place: Place) -> None:
    checkout = place.home / "clone"
    clone(place, source, checkout)
    head = place("git", "-C", checkout, "rev-parse", "--short=8", "HEAD").strip()
    untagged = version_of(place, tools, checkout)
    assert untagged.startswith("0.2.0.dev")
    assert f"+g{head}" in untagged
    place("git", "-C", checkout, "tag", "v0.2.0")
    assert version_of(place, tools, checkout) == "0.2.0"
    commit(place, checkout, "A change")
    assert version_of(place, tools, checkout).startswith("0.2.1.dev1+g")
    shutil.rmtree(checkout / ".git")
    assert version_of(place, tools, checkout) == "0.2.0.dev0"


def test_a_release_wants_a_clean_checkout_of_a_tag(source: Path, tools: Path, place: Place) -> None:
    checkout = place.home / "clone"
    clone(place, source, checkout)

    def refusal() -> str:
        done = place.attempt(tools / "python", "scripts/release.py", cwd=checkout)
        assert done.returncode == 1
        assert not (checkout / "dist").exists()
        return done.stderr

    assert "has no tag such as v0.2.0" in refusal()
    place("git", "-C", checkout, "tag", "v9.9.9")
    assert "CHANGELOG.md has no heading [9.9.9]" in refusal()
    with (checkout / "CHANGELOG.md").open("a") as file:
        file.write("## [9.9.9] - 2027-01-01\n")
    assert "changes that are not committed" in refusal()
    place("git", "-C", checkout, "commit", "-qam", "Release")
    place("git", "-C", checkout, "tag", "-f", "v9.9.9")
    place(tools / "python", "scripts/release.py", cwd=checkout)
    files = {path.name for path in (checkout / "dist").iterdir()}
    assert files == {"dcrontab-9.9.9.tar.gz", "dcrontab-9.9.9-py3-none-any.whl", "SHA256SUMS"}
    assert "dcrontab-9.9.9.tar.gz: OK" in place("sha256sum", "-c", "SHA256SUMS", cwd=checkout / "dist")
