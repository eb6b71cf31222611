"""Random concurrent traffic on Notify's tables."""

from __future__ import annotations

from collections.abc import Mapping

from demo.mix import mix
from demo.session import Session, templates_of
from demo.sessions import Sessions
from demo.source import Identity


class Traffic(Sessions[Session]):
    """Sessions that write notifications.

    `weights` replaces the weights of the kinds of change that it names (demo/mix.py).
    """

    def __init__(
        self,
        dsn: str,
        sessions: int = 4,
        seed: int = 1,
        rate: float | None = None,
        identity: Identity = "full",
        truncates: bool = False,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(
            dsn,
            lambda cursor, rng: Session(cursor, rng, templates_of(dsn), identity),
            mix(identity, truncates, weights),
            sessions,
            seed,
            rate,
        )
