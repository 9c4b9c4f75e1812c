"""Measure the start-up time of commands against a bare interpreter: alternating pairs, medians."""

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "dcron --help": ["-m", "dcron", "--help"],
    "dcron preview": ["-m", "dcron", "preview", "30 2 * * *", "-z", "Europe/Berlin"],
}


def seconds(arguments: list[str]) -> float:
    """Of one start to its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def report(rounds: int = 15) -> None:
    """Print a line a command."""
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            took[name].append(seconds(arguments))
    bare = statistics.median(took["python -c pass"])
    print(f"Start-up, median of {rounds}")
    for name, times in took.items():
        middle = statistics.median(times)
        spread = f"{min(times) * 1000:.0f}-{max(times) * 1000:.0f}"
        print(f"  {name:16} {middle * 1000:6.0f} ms ({spread})  ratio {middle / bare:.1f}")
    print()


if __name__ == "__main__":
    report()
