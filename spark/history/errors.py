"""Every way the seed can refuse or fail: a sentence, a remedy, an exit code.

Codes below 30 mean what they mean for the loader. Whatever the code, the previous seed is intact.
"""

from __future__ import annotations


class SeedError(Exception):
    """The seed failed in a way it does not know; please report it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        """The message and its remedy, as printed on stderr."""
        return f"{self}\nTry: {self.remedy}" if self.remedy else str(self)


class SettingError(SeedError):
    """A setting or an option is not usable."""

    exit_code = 2


class CannotConnect(SeedError):
    """The source or the target cannot be reached, or refuses the login."""

    exit_code = 10


class WalLevelTooLow(SeedError):
    """The source does not write the WAL that logical decoding needs."""

    exit_code = 11


class PluginMissing(SeedError):
    """wal2json is not installed on the source."""

    exit_code = 12


class PluginNotAllowed(SeedError):
    """The source does not allow wal2json as an output plugin."""

    exit_code = 13


class NoFreeSlot(SeedError):
    """The source has no free replication slot or no free WAL sender."""

    exit_code = 14


class MissingRight(SeedError):
    """The role lacks a right at the source or the target."""

    exit_code = 15


class IsStandby(SeedError):
    """The source is a standby."""

    exit_code = 16


class TableUnfit(SeedError):
    """A table does not exist, lacks a dimension, or is of a kind that cannot be read in ranges."""

    exit_code = 17


class NotSetUp(SeedError):
    """The staging schema or this slot's row in it is missing."""

    exit_code = 20


class AnotherCluster(SeedError):
    """The source is not the database that the change log was staged from."""

    exit_code = 23


class SnapshotLost(SeedError):
    """A session that holds the snapshot or the locks ended before the last row was read."""

    exit_code = 30


class SnapshotBlocked(SeedError):
    """Other transactions kept the snapshot from being made within --timeout."""

    exit_code = 31


class SnapshotTooOld(SeedError):
    """The snapshot is older than the change log's start or than the seed it would replace."""

    exit_code = 32


class AnotherSeed(SeedError):
    """Another seed of the same slot is running."""

    exit_code = 33


class CountingFailed(SeedError):
    """A task of the Spark job failed: a row could not be read, or a count not stored."""

    exit_code = 34
