"""Entry point of `python -m dcron` and of the `dcron` command."""

import gc
import sys

NEW_OBJECTS = 50_000
"""New objects before a search for garbage. With the default of 700, start-up searches again and again."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(NEW_OBJECTS)
    if "agent" in sys.argv[1:]:  # no command may ever read the agent's environment, even during start-up
        from dcron.warden.linux import hide_memory

        hide_memory()
    from dcron.cli.app import run

    try:
        run()
    finally:
        gc.freeze()  # Python searches all objects for garbage when it exits: a fifth of the time of `list`


if __name__ == "__main__":
    main()
