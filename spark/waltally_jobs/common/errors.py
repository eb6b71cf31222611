"""Errors that only Spark's jobs raise; waltally.errors has those of loader and jobs.

Whatever the error, what was stored before is intact.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from waltally.errors import LoaderError


class ReadFailed(OSError):
    """A task could not read; the driver finds the sentence by this name in Spark's report."""


class WriteFailed(OSError):
    """A task could not write; the driver finds the sentence by this name in Spark's report."""


class LeafChanged(OSError):
    """A task found another table than the snapshot has; the driver finds it by this name."""


class BeginAgain(Exception):
    """What was read is of no use, and nothing is broken: the job is to begin again."""


TABLE_CHANGED = "TableChanged"
"""The name of what a stream of a table's rows ends with where its columns are others now."""

FAILURES = (PySparkException, Py4JError, OSError)
"""What is raised where Spark has failed or died."""


class SnapshotLost(LoaderError):
    """The seed lost its snapshot or its locks."""

    exit_code = 29


class SnapshotBlocked(LoaderError):
    """Writers or a lock kept the seed from its snapshot for --timeout."""

    exit_code = 29


class SnapshotTooOld(LoaderError):
    """The snapshot is older than the change log, or than the present baseline."""

    exit_code = 35


class AnotherSeed(LoaderError):
    """Another seed of the slot is at work."""

    exit_code = 24


class CountingFailed(LoaderError):
    """A task of the Spark job failed."""

    exit_code = 29


class NoExecutor(LoaderError):
    """The Spark cluster has no room, or lost its executors."""

    exit_code = 29


class AuditIncomplete(LoaderError):
    """The loader does not run, or did not reach the position of the audit or the seed in time."""

    exit_code = 41


class AuditDiffers(LoaderError):
    """The model differs from the tables."""

    exit_code = 42


@contextlib.contextmanager
def spark_errors(work: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turn Spark's errors in the block into LoaderErrors.

    `check` is called after the block, and when the job has failed: what it raises is the cause.
    """
    try:
        yield
    except LoaderError:
        check()
        raise
    except FAILURES as error:
        check()
        if changed := re.search(r"LeafChanged: (.*)", f"{type(error).__name__}: {error}"):
            raise BeginAgain(changed[1].strip()) from None
        if "cancelled as part of cancellation of all jobs" in str(error):
            raise NoExecutor(
                f"Spark's cluster has had no executor for --timeout, and the {work} gave up",
                "see in its UI whether workers have the cores and the memory that"
                f" spark.executor.cores and spark.executor.memory ask for, then run the {work}"
                " again",
            ) from None
        if raised := _SENTENCE.search(str(error)):
            raise _kinds().get(raised[1], CountingFailed)(raised[2], raised[3]) from None
        text = reason(error)
        if "lock timeout" in text:
            raise SnapshotBlocked(
                f"a table was locked for longer than --timeout, and the {work} gave way",
                f"run the {work} again when that TRUNCATE, ALTER or VACUUM FULL has ended",
            ) from None
        raise CountingFailed(text, _remedy(text, work)) from None
    check()


def reason(error: Exception) -> str:
    """Return the executor's own sentence out of Spark's report of a failed job."""
    match = re.search(r"(?:ReadFailed|WriteFailed): (.*)", str(error))
    if match:
        return f"a task failed: {match[1].strip()}"
    if raised := _RAISED.findall(str(error)):
        return f"a task failed: {raised[-1][:300]}"
    return f"Spark failed: {first_line(error)}"


_SENTENCE = re.compile(r"\.(\w+): (.*)\nTry: (.*)")
"""A LoaderError with its remedy, as the format `waltally` raises it, in Spark's report."""


def _kinds(base: type[LoaderError] = LoaderError) -> dict[str, type[LoaderError]]:
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)", re.MULTILINE
)
"""What a task's own Python has raised, in Spark's report."""


def first_line(error: Exception) -> str:
    """Return the error's first line that says something, with the cause that Java gives last.

    The first line of Java's own errors names only a call of ours.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if not causes or causes[-1] in lines[0]:
        return lines[0][:300]
    return f"{lines[0][:300]}: {causes[-1][:300]}"


def _remedy(text: str, work: str) -> str:
    if re.search(r"too many (clients|connections)|connection slots are reserved", text):
        return (
            f"let fewer tasks read at once, as by `spark-submit --master local[2] spark/{work}.py`,"
            " or raise that limit"
        )
    # The server's words are translated, what is in quotes is not.
    if re.search(r'"UTF8": 0x', text):
        return (
            "write the texts that are not UTF-8 in UTF-8, by the SQL in docs/source.md ('A source"
            f" in SQL_ASCII'), then run the {work} again"
        )
    if lacking := re.search(r'0x[^"]*"\w+"[^"]*"(\w+)"', text):
        return (
            f"change the texts at the source for which `convert_to(column, '{lacking[1]}')` fails,"
            f" then run the {work} again"
        )
    return f"run the {work} again"
