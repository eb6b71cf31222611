"""A job as a command: the options and settings that several have, what it prints, how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from waltally.errors import LoaderError, SettingError
from waltally.settings import SlotSettings
from waltally.usage import Command, UsageError, open_output, output_error, usage_lines
from waltally_jobs.common import submitted
from waltally_jobs.common.errors import FAILURES, first_line
from waltally_jobs.common.progress import print_lines

DEFAULT_TIMEOUT = 300.0
DEFAULT_HOLD = 5.0
STOPS = (signal.SIGTERM, signal.SIGINT)
"""Have a job that follows end."""


@dataclass(frozen=True)
class Settings(SlotSettings):
    """What a seed or an audit needs to know; the connection strings may hold passwords.

    `models` are their names, empty for all. `timeout` is in seconds. With `partitions` 0 the
    tables' size decides. `work` is the name of the job in messages and sessions: seed or audit.
    Purged rows that a model knows stay counted unless `forget_purged` is set.
    `hold` is how many seconds a try of an audit may keep others from applying.
    """

    source: str = field(repr=False)
    models: tuple[str, ...] = ()
    partitions: int = 0
    timeout: float = DEFAULT_TIMEOUT
    work: str = "seed"
    forget_purged: bool = False
    hold: float = DEFAULT_HOLD


Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="NAME", help="Only this dbt model; repeatable. Without it every model."
    ),
]
Partitions = Annotated[
    int, typer.Option(min=0, help="How many ranges to read; 0: one per 8192 pages.")
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long to wait for writers, for the loader and for another seed.",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="End once what is staged now is done with.")]
MaxChanges = Annotated[
    int, typer.Option(min=1, help="About how many changes a batch has; it has whole transactions.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class Stop:
    """Whether the job is to end: it was told to, or the program that started it has died."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._event = threading.Event()
        self._parent = os.getppid()
        for each in signals:
            signal.signal(each, self.set)

    def set(self, *_: object) -> None:
        """Have the job end after what it does now."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether the job is to end."""
        # spark-submit's Java takes SIGTERM for itself and leaves this process alone.
        return self._event.wait(seconds) or os.getppid() != self._parent


F = TypeVar("F", bound=Callable[..., Any])


class Job(typer.Typer):
    """The command of a job; `intact` says what a failure leaves as it was."""

    def __init__(self, intact: str) -> None:
        super().__init__(
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._intact = intact

    def command(self, *names: Any, **more: Any) -> Callable[[F], F]:
        """As that of Typer, with a `Command`."""
        return super().command(*names, cls=Command, **more)

    def main(self) -> None:
        """Run the command; a failure is a sentence and `intact` on stderr, and an exit code."""
        submitted.restore_stderr()
        open_output()
        with _ending(self._intact):
            code = self(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)


@contextlib.contextmanager
def _ending(intact: str) -> Iterator[None]:
    """End the program where the block fails."""
    try:
        yield
    except UsageError as error:
        job = f"spark-submit spark/{Path(sys.argv[0]).name}"
        _end(SettingError.exit_code, *usage_lines(error, job))
    except LoaderError as error:
        _end(error.exit_code, *f"Error: {error.sentence}".split("\n"), intact)
    except FAILURES as error:
        if isinstance(error, OSError) and (unwritten := output_error(error)) is not None:
            _end(unwritten.exit_code, *f"Error: {unwritten.sentence}".split("\n"))
        _end(LoaderError.exit_code, f"Error: {first_line(error)}", intact)
    except KeyboardInterrupt:
        _end(130, f"Stopped. {intact}".strip())


def _end(code: int, *lines: str) -> NoReturn:
    print_lines(filter(None, lines), err=True)
    sys.exit(code)
