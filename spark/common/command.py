"""A job as a command: the options and settings that several have, what it prints, how it ends."""

from __future__ import annotations

import io
import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from common.errors import first_line
from common.progress import print_lines
from waltally.errors import LoaderError, SettingError
from waltally.settings import SlotSettings

DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class Settings(SlotSettings):
    """What a seed or an audit needs to know; the connection strings may hold passwords.

    `facts` are the names of facts, empty for all. `timeout` is in seconds. With `partitions` 0 the
    tables' size decides. `work` is the name of the job in messages and sessions: seed or audit.
    With `archive` no table is read: the seed is computed from what is archived in that folder, at
    the position `at` or at the archive's end. Nothing connects to `source` then.
    Purged rows that a fact knows stay counted unless `forget_purged` is set.
    """

    source: str = field(repr=False)
    facts: tuple[str, ...] = ()
    partitions: int = 0
    timeout: float = DEFAULT_TIMEOUT
    work: str = "seed"
    forget_purged: bool = False
    archive: str | None = None
    at: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at is not None and self.archive is None:
            raise SettingError(
                "--at is a position of an archive, and there is no --archive",
                "give --archive too; the tables themselves are counted as they are now",
            )


Facts = Annotated[
    list[str] | None,
    typer.Option("--fact", help="Name of a dbt model; may be repeated. Else every fact."),
]
Partitions = Annotated[int, typer.Option(min=0, help="Ranges to read; 0: one per 8192 pages.")]
Timeout = Annotated[
    float,
    typer.Option(min=0, help="Seconds to wait for writers, for the loader and for another seed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class Job(typer.Typer):
    """The command of a job; `intact` says what a failure leaves as it was."""

    def __init__(self, intact: str) -> None:
        super().__init__(add_completion=False, pretty_exceptions_enable=False)
        self._intact = intact

    def main(self) -> None:
        """Run the command; a failure is a sentence and `intact` on stderr, and an exit code."""
        restore_stderr()
        try:
            self()
        except LoaderError as error:
            _end(error.exit_code, *error.sentence.split("\n"), self._intact)
        except (PySparkException, Py4JError) as error:
            _end(LoaderError.exit_code, f"Error: {first_line(error)}", self._intact)
        except KeyboardInterrupt:
            _end(130, f"Stopped. {self._intact}".strip())


def _end(code: int, *lines: str) -> NoReturn:
    print_lines(filter(None, lines), err=True)
    sys.exit(code)


class SubmitterStderr(io.TextIOBase):
    """A text stream that writes through the JVM."""

    def __init__(self, jvm: Any) -> None:
        self._err = jvm.java.lang.System.err
        self._own = sys.__stderr__

    def write(self, text: str) -> int:
        """Write to the JVM's standard error, or to our own when the JVM is gone."""
        try:
            self._err.print(text)
            self._err.flush()
        except (Py4JError, OSError):
            if self._own is not None:
                self._own.write(text)
        return len(text)

    def isatty(self) -> bool:
        """Return whether spark-submit, the parent process, writes to a terminal."""
        return _is_terminal(2)


def _is_terminal(descriptor: int) -> bool:
    """Return whether the file of spark-submit, the parent process, is a terminal."""
    try:
        target = str(Path(f"/proc/{os.getppid()}/fd/{descriptor}").readlink())
    except OSError:
        return False
    return target.startswith(("/dev/pts/", "/dev/tty"))


def stdout_is_terminal() -> bool:
    """Return whether what we print goes to a terminal, also through spark-submit."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _is_terminal(1)
    return sys.stdout.isatty()


def restore_stderr() -> None:
    """Under spark-submit, let sys.stderr write to the standard error that the caller sees."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    sys.stderr = SubmitterStderr(SparkContext._jvm)


def quiet_spark() -> None:
    """Let the JVM, which must run, and PySpark log nothing below FATAL.

    ERROR would print a stack per attempt; our own sentence says what failed.
    `--conf spark.log.level` sets another level of the JVM.
    """
    from pyspark import SparkContext

    assert SparkContext._jvm is not None
    log4j = SparkContext._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setRootLevel(log4j.Level.FATAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
