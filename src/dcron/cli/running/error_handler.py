"""Turn an exception into a message on stderr and an exit code (docs/cli.md)."""

import errno
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from dcron.cli.output import console
from dcron.cli.running.other_words import did_you_mean
from dcron.errors import CrontabFileError, DcronError, ExitCode

# typer moves its own classes between versions; this is the base class of all its usage errors.
ClickError: type[Exception] = typer.BadParameter.__mro__[2]
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def explain(error: BaseException, words: Sequence[str] = ()) -> int:
    """Print what is wrong, and return the exit code.

    `words` are those of the command line: passwords in their URLs are not printed.
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
        case BrokenPipeError():  # the reader of our output has closed it
            console.drop(sys.stdout)
            return ExitCode.DONE
        case OSError(filename=None, errno=number) if number in _UNWRITABLE:
            console.drop(sys.stdout)
            console.complain(f"cannot write the output: {error.strerror}")
            return ExitCode.FAILED
    if isinstance(error, ClickError):
        return _explain_usage(error, words)
    return _explain_bug(error, words)


def _explain_usage(error: Exception, words: Sequence[str]) -> int:
    from dcron.database.url import redact_typed

    context = getattr(error, "ctx", None)
    console.complain(_sentence(redact_typed(_usage_message(error), words)))
    if context is not None:
        console.note(context.get_usage().replace("Usage:", "usage:").strip())
        console.note(f"see `{context.command_path} --help`")
    return ExitCode.USAGE


def _usage_message(error: Any) -> str:
    """Return the message of a usage error of typer, in the style of ours."""
    if type(error) is typer.BadParameter and error.param and error.param.param_type_name == "option":
        return f"{max(error.param.opts, key=len)}: {error.message}"
    if hasattr(error, "possibilities"):
        return f"there is no option {error.option_name}{did_you_mean(error.option_name, error.possibilities)}"
    message: str = error.format_message()
    return message


def _sentence(message: str) -> str:
    text = message.strip().rstrip(".")
    return text[:1].lower() + text[1:]


def _explain_bug(error: BaseException, words: Sequence[str]) -> int:
    """Print the traceback of a bug in dcron, without passwords."""
    from dcron.database.url import redact_typed

    console.note(redact_typed("".join(traceback.format_exception(error)), words))
    console.complain("this is a bug in dcron; please report it with the lines above")
    return ExitCode.FAILED
