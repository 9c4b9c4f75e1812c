"""From what went wrong to a message on stderr and the exit code of the contract (docs/cli.md)."""

import errno
import sys
import traceback
from collections.abc import Sequence

import typer

from dcron.cli import console
from dcron.errors import CrontabFileError, DcronError, ExitCode

# Its own classes have moved between typer's versions; this one's ancestor is what every usage error is.
ClickError: type[Exception] = typer.BadParameter.__mro__[2]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def explain(error: BaseException, words: Sequence[str] = ()) -> int:
    """Say what went wrong, as shortly as it can be acted upon; the exit code.

    `words` are those of the command line: a database URL among them is not repeated.
    """
    match error:
        case CrontabFileError():
            console.note(str(error))  # file:line:column, for editors to jump to
            console.complain("nothing was imported")
            return error.exit_code
        case DcronError():
            console.complain(str(error))
            return error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            sys.stderr.write("\n")
            return ExitCode.INTERRUPTED
        case BrokenPipeError():  # whoever read our output has seen enough
            console.drop(sys.stdout)
            return ExitCode.DONE
        case OSError(filename=None, errno=number) if number in _FULL:
            console.drop(sys.stdout)
            console.complain(f"cannot write what there is to write: {error.strerror}")
            return ExitCode.FAILED
    if isinstance(error, ClickError):
        return _explain_usage(error, words)
    return _admit(error, words)


def _explain_usage(error: Exception, words: Sequence[str]) -> int:
    from dcron.database.url import redact_typed

    context = getattr(error, "ctx", None)
    console.complain(_sentence(redact_typed(error.format_message(), words)))  # type: ignore[attr-defined]
    if context is not None:
        console.note(context.get_usage().replace("Usage:", "usage:").strip())
        console.note(f"`{context.command_path} --help` tells more")
    return ExitCode.USAGE


def _sentence(message: str) -> str:
    text = message.strip().rstrip(".")
    return text[:1].lower() + text[1:]


def _admit(error: BaseException, words: Sequence[str]) -> int:
    """A mistake of ours: all there is for a report, but no password."""
    from dcron.database.url import redact_typed

    told = "".join(traceback.format_exception(error))
    console.note(redact_typed(told, words))
    console.complain("this is a mistake in dcron; please report it with the lines above")
    return ExitCode.FAILED
