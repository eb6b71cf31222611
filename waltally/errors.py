"""Every error of the loader: a sentence, a remedy, an exit code.

An exit code is for what a program would do: ask a person, try again, set up, seed. The sentence has
the rest. A docstring is also what the table of exit codes in docs/runbook.md says: `make fix`
writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from waltally.escapes import escaped


class LoaderError(Exception):
    """The loader does not know this failure."""

    exit_code = 1

    def __init__(
        self, message: str, remedy: str = "", safe: str = "", sql: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.sql = tuple(sql)
        """The statements at the source that the remedy consists of, for `loader up`."""
        self.safe = safe
        """Which changes are certainly stored; `follow` fills it in where it is empty."""
        self.others: list[LoaderError] = []
        """Further findings; the exit code is the first one's."""

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.safe}" if self.safe else super().__str__()

    @property
    def sentence(self) -> str:
        """The message, its remedy on a line of its own, then the other findings: as on stderr."""
        own = escaped(str(self)) + (f"\nTry: {escaped(self.remedy)}" if self.remedy else "")
        return "\nError: ".join([own, *(other.sentence for other in self.others)])


class SettingError(LoaderError):
    """A setting or an option is not usable."""

    exit_code = 2


class Unhealthy(LoaderError):
    """`loader status` has findings."""

    exit_code = 3


class CannotConnect(LoaderError):
    """The source or the target cannot be reached."""

    exit_code = 10


class TargetReadOnly(CannotConnect):
    """The target takes no writes."""

    exit_code = 10


class LoginRefused(LoaderError):
    """The login is refused, or a pooling proxy is in between."""

    exit_code = 15


class WalLevelTooLow(LoaderError):
    """The source's `wal_level` is not `logical`."""

    exit_code = 11


class PluginMissing(LoaderError):
    """wal2json is not installed on the source."""

    exit_code = 11


class PluginNotAllowed(LoaderError):
    """The source's `output_plugin_libraries` lacks wal2json."""

    exit_code = 11


class NoFreeSlot(LoaderError):
    """The source has no free slot or WAL sender."""

    exit_code = 11


class MissingRight(LoaderError):
    """The role lacks a right."""

    exit_code = 15


class IsStandby(LoaderError):
    """The source is a standby."""

    exit_code = 11


class TableUnfit(LoaderError):
    """A table or a needed column is missing, was renamed or cannot be followed."""

    exit_code = 17


class IdentityTooNarrow(LoaderError):
    """A table's replica identity lacks columns that the models need."""

    exit_code = 17


class SlotCreationBlocked(LoaderError):
    """A long transaction keeps the slot from being made."""

    exit_code = 29


class NotSetUp(LoaderError):
    """The staging schema or the slot's row in it is missing, or it is of another version."""

    exit_code = 20


class SlotLost(LoaderError):
    """The slot was dropped, or the server has given it up, or cannot decode its WAL."""

    exit_code = 21


class SlotMoved(LoaderError):
    """The slot is ahead of the position of record.

    Somebody moved it or made it again, or the target was restored.
    """

    exit_code = 21


class AnotherCluster(LoaderError):
    """The source is another cluster or database than the change log is of."""

    exit_code = 23


class SlotInUse(LoaderError):
    """Another loader follows the slot, or did so less than `wal_sender_timeout` ago."""

    exit_code = 24


class SourceBehind(LoaderError):
    """The source lacks commits that the change log or a baseline holds.

    It was restored, a failover lost them, or it is a former primary.
    """

    exit_code = 23


class DiskFull(LoaderError):
    """The target has no disk space, or the source, where it decodes a large transaction."""

    exit_code = 26


class StagingTooNew(LoaderError):
    """The staging schema was made by a newer loader."""

    exit_code = 27


class BuildFailed(LoaderError):
    """dbt is missing or cannot parse the project, or `run --once --build` cannot apply a model."""

    exit_code = 28


class Interrupted(LoaderError):
    """A lock, a deadlock or another session ended the transaction."""

    exit_code = 29


class TableReplaced(LoaderError):
    """A counted table or a needed column was made again, renamed, or got another owner."""

    exit_code = 35


class EncodingUnfit(LoaderError):
    """The target's encoding cannot hold the source's text."""

    exit_code = 36


class SynchronousStandby(LoaderError):
    """The source's `synchronous_standby_names` matches the loader."""

    exit_code = 10


class NotReached(LoaderError):
    """`loader wait`: a model is still behind after --timeout."""

    exit_code = 41


def unexpected(error: BaseException) -> LoaderError:
    """Return the error for an exception that nothing handles; `--verbose` logs its traceback."""
    return LoaderError(
        f"The loader met an error that it does not know: {type(error).__name__} ({error})",
        "start it again with --verbose and report what it logs; nothing that is stored is lost",
    )


class RowTooLarge(LoaderError):
    """A row is too large for the stream: as JSON it has more than 1 GB."""

    exit_code = 36


class NotOurs(LoaderError):
    """`setup` or `teardown` would drop or leave behind what is not this source's, or not ours."""

    exit_code = 38


_Finding = TypeVar("_Finding", bound=LoaderError)


def combine(findings: Sequence[_Finding]) -> _Finding:
    """Return the first finding with the others attached; there is at least one."""
    first, *others = findings
    first.others = list(others)
    return first


BROKEN = (SlotLost, SlotMoved, AnotherCluster, SourceBehind)
"""Errors that say that the change log does not go on at its position."""

TRANSIENT = (CannotConnect, SlotInUse, DiskFull, Interrupted, SynchronousStandby)
"""Errors that may end by themselves: `loader run` tries again with backoff and loses nothing."""
