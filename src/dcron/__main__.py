"""`python -m dcron`, and the `dcron` command."""


def main() -> None:
    """Run the command line."""
    from dcron.cli.app import run

    run()


if __name__ == "__main__":
    main()
