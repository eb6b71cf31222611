"""Errors that only Spark's jobs raise; waltally.errors has those of loader and jobs.

Whatever the error, what was stored before is intact.
"""

from __future__ import annotations

from waltally.errors import LoaderError


class SnapshotLost(LoaderError):
    """A session that holds the snapshot or the locks ended before the last row was read."""

    exit_code = 30


class SnapshotBlocked(LoaderError):
    """Other transactions kept the snapshot from being made within --timeout."""

    exit_code = 31


class SnapshotTooOld(LoaderError):
    """The snapshot is older than the change log's start or than the seed it would replace."""

    exit_code = 32


class AnotherSeed(LoaderError):
    """Another seed of the same slot is running."""

    exit_code = 33


class CountingFailed(LoaderError):
    """A task of the Spark job failed: a row could not be read, or a count not stored."""

    exit_code = 34


class NoExecutor(LoaderError):
    """The Spark cluster did not take the job, or had no executor for --timeout."""

    exit_code = 34


class ArchiveIncomplete(LoaderError):
    """The archive has a gap, or does not reach the change log or the requested position."""

    exit_code = 32


class AnotherArchive(LoaderError):
    """Another archive of the same slot is running."""

    exit_code = 33


class ReplayDiffers(LoaderError):
    """The replayed counts differ from the fact."""

    exit_code = 40


class AuditIncomplete(LoaderError):
    """The loader does not run, or did not reach the position of the audit or the seed in time."""

    exit_code = 41


class AuditDiffers(LoaderError):
    """The fact differs from the tables."""

    exit_code = 42


class StandbyUnusable(LoaderError):
    """The server of --standby is no standby or was promoted, or its replay does not pause."""

    exit_code = 44
