"""Every error of the loader: a sentence, a remedy, an exit code.

The first line of a docstring is also the row in the table of exit codes in docs/reference.md. A
test compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from waltally.escapes import escaped


class LoaderError(Exception):
    """The loader failed in a way it does not know; please report it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "", safe: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy
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
    """`loader status`: a threshold is passed or a check fails."""

    exit_code = 3


class CannotConnect(LoaderError):
    """The source or the target cannot be reached; `loader run` waits, `--once` gives up."""

    exit_code = 10


class TargetReadOnly(CannotConnect):
    """The target takes no writes, as a standby; `loader run` waits for it, `--once` gives up."""

    exit_code = 39


class LoginRefused(LoaderError):
    """The source or the target refuses the login: password, role, database or pg_hba.conf."""

    exit_code = 45


class WalLevelTooLow(LoaderError):
    """The source does not write the WAL that logical decoding needs."""

    exit_code = 11


class PluginMissing(LoaderError):
    """wal2json is not installed on the source."""

    exit_code = 12


class PluginNotAllowed(LoaderError):
    """The source does not allow wal2json as an output plugin."""

    exit_code = 13


class NoFreeSlot(LoaderError):
    """The source has no free replication slot or no free WAL sender."""

    exit_code = 14


class MissingRight(LoaderError):
    """The role lacks a right at the source or the target."""

    exit_code = 15


class IsStandby(LoaderError):
    """The source is a standby without the slot, or one that cannot keep it."""

    exit_code = 16


class TableUnfit(LoaderError):
    """A table does not exist, lacks a needed column, or is of a kind that cannot be followed."""

    exit_code = 17


class IdentityTooNarrow(LoaderError):
    """A table's replica identity does not carry what the facts need of an old row."""

    exit_code = 18


class SlotCreationBlocked(LoaderError):
    """A long transaction keeps the slot from being made."""

    exit_code = 19


class NotSetUp(LoaderError):
    """The staging schema or this slot's row in it is missing."""

    exit_code = 20


class SlotLost(LoaderError):
    """The slot is gone, or the server has dropped or cannot decode WAL that it needed."""

    exit_code = 21


class SlotMoved(LoaderError):
    """The slot is ahead of the position of record: somebody moved or remade it."""

    exit_code = 22


class AnotherCluster(LoaderError):
    """The source is not the cluster that the change log was staged from."""

    exit_code = 23


class SlotInUse(LoaderError):
    """Another loader follows the slot; `loader run` waits for it, `--once` gives up.

    The WAL sender of a loader that has ended is no other loader: both wait until the server frees
    the slot, which takes up to wal_sender_timeout.
    """

    exit_code = 24


class SourceBehind(LoaderError):
    """The source's WAL ends before the position of record: it was restored or lost commits."""

    exit_code = 25


class DiskFull(LoaderError):
    """A server has no disk space; `loader run` waits for it, `--once` gives up."""

    exit_code = 26


class StagingTooNew(LoaderError):
    """The staging schema was made by a newer loader."""

    exit_code = 27


class BuildFailed(LoaderError):
    """dbt is not installed or cannot parse the project; `run --once --build`: a model failed."""

    exit_code = 28


class Interrupted(LoaderError):
    """A lock or another session broke a transaction; `loader run` repeats it, `--once` gives up."""

    exit_code = 29


class TableReplaced(LoaderError):
    """A counted table or a column of it is another one than was counted, under the old name."""

    exit_code = 35


class EncodingUnfit(LoaderError):
    """The target's encoding cannot hold the source's text."""

    exit_code = 36


class SynchronousStandby(LoaderError):
    """The source's commits would wait for the loader; `loader run` waits, `--once` gives up."""

    exit_code = 37


class NotReached(LoaderError):
    """`loader wait`: the models did not come to hold what is committed within --timeout."""

    exit_code = 48


def unexpected(error: BaseException) -> LoaderError:
    """Return the error for an exception that nothing handles; `--verbose` logs its traceback."""
    return LoaderError(
        f"The loader met an error that it does not know: {type(error).__name__} ({error})",
        "start it again with --verbose and report what it logs; nothing that is stored is lost",
    )


class RowTooLarge(LoaderError):
    """A row is too large for the stream: its JSON passes 1 GB."""

    exit_code = 43


class NotOurs(LoaderError):
    """Something that `loader setup` did not make would be dropped."""

    exit_code = 38


_Finding = TypeVar("_Finding", bound=LoaderError)


def combine(findings: Sequence[_Finding]) -> _Finding:
    """Return the first finding with the others attached; there is at least one."""
    first, *others = findings
    first.others = list(others)
    return first


TRANSIENT = (CannotConnect, SlotInUse, DiskFull, Interrupted, SynchronousStandby)
"""Errors that may end by themselves: `loader run` tries again with backoff and loses nothing."""
