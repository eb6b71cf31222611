"""Settings of a job that counts tables, under the loader's names: default < environment < flag."""

from __future__ import annotations

from dataclasses import dataclass, field

from waltally import lsn
from waltally.errors import SettingError
from waltally.settings import check_names

DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class Settings:
    """What a seed or an audit needs to know; the connection strings may hold passwords.

    `facts` are the names of facts, empty for all. `timeout` is in seconds. With `partitions` 0 the
    tables' size decides. `work` is the name of the job in messages and sessions: seed or audit.
    With `standby` the tables are read there, and with `archive` none is: the seed is computed from
    what is archived in that folder, at the position `at` or at the archive's end. Nothing connects
    to `source` then.
    Purged rows that a fact knows stay counted unless `forget_purged` is set.
    """

    source: str = field(repr=False)
    target: str = field(repr=False)
    slot: str
    schema: str
    facts: tuple[str, ...] = ()
    partitions: int = 0
    timeout: float = DEFAULT_TIMEOUT
    work: str = "seed"
    forget_purged: bool = False
    standby: str | None = field(default=None, repr=False)
    archive: str | None = None
    at: int | None = None

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
        if self.standby is not None and self.archive is not None:
            raise SettingError("--standby and --archive exclude each other", "give one of them")
        if self.at is not None and self.archive is None:
            raise SettingError(
                "--at is a position of an archive, and there is no --archive",
                "give --archive too; the tables themselves are counted as they are now",
            )


def parse_lsn(text: str | None, flag: str) -> int | None:
    """Return the position that was given by a flag. Raises SettingError."""
    try:
        return None if text is None else lsn.parse(text)
    except ValueError:
        raise SettingError(
            f"{flag} is {text!r}: not a WAL position", "give one like 0/15368E0"
        ) from None
