"""Settings of the job that applies changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.settings import DEFAULT_TIMEOUT

from waltally.settings import check_names

MAX_CHANGES = 2_000_000


@dataclass(frozen=True)
class ApplySettings:
    """What the job needs to know; `target` may hold a password. Raises SettingError.

    `facts` are the names of facts, empty for all. `interval` is how many seconds it rests where
    there is nothing to do, None to end once everything that was staged at the start is applied. A
    batch has about `max_changes` changes, and whole transactions. `timeout` is in seconds.
    """

    target: str = field(repr=False)
    slot: str
    schema: str
    facts: tuple[str, ...] = ()
    interval: float | None = None
    max_changes: int = MAX_CHANGES
    timeout: float = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
