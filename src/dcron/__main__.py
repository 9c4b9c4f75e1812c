"""Entry point of `python -m dcron` and of the `dcron` command."""

import sys


def main() -> None:
    """Run the command line."""
    if "agent" in sys.argv[1:]:  # no command may ever read the agent's environment, even during start-up
        from dcron.warden.linux import hide_memory

        hide_memory()
    from dcron.cli.app import run

    run()


if __name__ == "__main__":
    main()
