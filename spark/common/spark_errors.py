"""Turns Spark's errors into LoaderErrors, each one sentence."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from common.errors import CountingFailed, NoExecutor, SnapshotBlocked


@contextlib.contextmanager
def spark_errors(work: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turn Spark's errors in the block into LoaderErrors.

    `check` is called after the block, and when the job has failed: what it raises is the cause.
    """
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        check()
        lost = re.search(r"NoExecutor: (.* s)\b", str(error))
        if lost:
            raise NoExecutor(
                f"{lost[1]}, and the {work} gave up",
                f"see in its UI why its workers or executors ended, and run the {work} again",
            ) from None
        text = reason(error)
        if "lock timeout" in text:
            raise SnapshotBlocked(
                "a session waits for an exclusive lock on the tables,"
                f" and the {work} gave way to it",
                f"run the {work} again when that TRUNCATE or ALTER has ended",
            ) from None
        raise CountingFailed(text, _remedy(text, work)) from None
    check()


def reason(error: Exception) -> str:
    """Return the executor's own sentence out of Spark's report of a failed job."""
    match = re.search(r"(?:ReadFailed|WriteFailed): (.*)", str(error))
    if match:
        return f"a task failed: {match[1].strip()}"
    return f"Spark failed: {first_line(error)}"


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
    if re.search(r"No FileSystem for scheme|ClassNotFoundException: Class \S+FileSystem ", text):
        return (
            "give Spark the jars of this file system (`--packages`, docs/spark.md says which), or"
            " name a path of another one"
        )
    if re.search(r": (java\.io|java\.net|org\.apache\.hadoop)\.", text):
        return f"see that Spark can reach the path and may write there, then run the {work} again"
    return f"run the {work} again"
