"""Errors of the command line, in the form of every other error."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand

from waltally.errors import LoaderError

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

UsageError: Any = typer.BadParameter.__mro__[1]
"""The error for a misspelt option, a missing argument or a bad value; typer does not export it."""


class Command(TyperCommand):
    """A command that refuses an option given twice whose first value would not count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the arguments. Raises UsageError."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            takes_one = option.param_type_name == "option" and not (
                option.multiple or getattr(option, "is_flag", False)
            )
            if takes_one and given.count(option) > 1:
                ctx.fail(f"Option '{option.opts[0]}' is given twice, and takes one value.")
        return super().parse_args(ctx, args)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")  # noqa: SIM115: until the process ends


def open_output() -> None:
    """Let what is printed go nowhere where standard output or standard error is closed."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def output_error(error: OSError) -> LoaderError | None:
    """Return the error for output that could not be written, None for another failure."""
    if error.errno not in _CANNOT_WRITE or error.filename is not None:
        return None
    # What it still holds would fail once more when the process ends.
    sys.stdout = _nowhere()
    return LoaderError(
        f"The output cannot be written: {error.strerror}; what the command did stays done",
        "let standard output lead to where there is room, and run the command again",
    )


def usage_lines(error: Any, program: str) -> list[str]:
    """Return the sentence and a remedy; for a command without arguments, its help."""
    context = error.ctx
    message = error.format_message().rstrip(".")
    if (not message and context is not None) or type(error).__name__ == "NoArgsIsHelpError":
        return str(context.get_help()).split("\n")
    path = program if context is None or " " not in context.command_path else context.command_path
    return [f"Error: {message}", f"Try: `{path} --help`"]
