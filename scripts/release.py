"""Build what a release consists of, in dist/: the sdist, the wheel, and their checksums.

`make release` wants a clean checkout of a tag. `make release TRIAL=1` builds what is there.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main(words: list[str]) -> int:
    """Build it; return the exit code."""
    if words != ["--trial"] and (problem := why_not()):
        print(f"release: {problem}; a trial of it: make release TRIAL=1", file=sys.stderr)
        return 1
    DIST.mkdir(exist_ok=True)
    for old in [*DIST.glob("dcrontab-*"), DIST / "SHA256SUMS"]:
        old.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True)
    built = sorted(DIST.glob("dcrontab-*"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")
    return 0


def why_not() -> str | None:
    """Return why this checkout is no release."""
    if git("status", "--porcelain"):
        return "there are changes that are not committed; commit them, or put them aside (git stash)"
    tags = [tag for tag in git("tag", "--points-at", "HEAD").split() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if len(tags) != 1:
        have = f"has the tags {', '.join(tags)}" if tags else "has no tag such as v0.2.0"
        return f"this commit {have}; give it one: git tag -a vX.Y.Z"
    if f"## [{tags[0][1:]}]" not in (ROOT / "CHANGELOG.md").read_text():
        return f"CHANGELOG.md has no heading [{tags[0][1:]}]; rename [Unreleased] before the tag is made"
    return None


def git(*words: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
