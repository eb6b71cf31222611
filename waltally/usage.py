"""Errors of the command line, in the form of every other error."""

from __future__ import annotations

from typing import Any

import typer

UsageError: Any = typer.BadParameter.__mro__[1]
"""The error for a misspelt option, a missing argument or a bad value; typer does not export it."""


def usage_lines(error: Any, program: str) -> list[str]:
    """Return the sentence and a remedy; for a command without arguments, its help."""
    context = error.ctx
    message = error.format_message().rstrip(".")
    if (not message and context is not None) or type(error).__name__ == "NoArgsIsHelpError":
        return str(context.get_help()).split("\n")
    path = program if context is None or " " not in context.command_path else context.command_path
    return [f"Error: {message}", f"Try: `{path} --help`"]
