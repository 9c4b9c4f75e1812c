"""`python -m dcron`, and the `dcron` command."""

import sys


def main() -> None:
    """Run the command line."""
    if "agent" in sys.argv[1:]:  # its commands must never read its environment, not even while it is loading
        from dcron.warden.linux import hide_memory

        hide_memory()
    from dcron.cli.app import run

    run()


if __name__ == "__main__":
    main()
