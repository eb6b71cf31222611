"""Random concurrent traffic on Notify's tables: the kinds of change, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testkit import notify_changes as changes
from testkit import source
from testkit.notify_changes import Session, templates_of
from testkit.source import Identity
from testkit.traffic import Sessions

Change = Callable[[Session], int]
Mix = dict[Change, int]


def unrelated(session: Session) -> int:
    """A write to a table that is not counted."""
    return session.run("insert into unrelated (note) values (%s)", session.new_id())


def empty(session: Session) -> int:
    """A transaction gets an id and writes nothing."""
    return session.run("select pg_current_xact_id()")


_BY_WEIGHT: dict[int, list[Change]] = {
    25: [changes.status_move],
    15: [changes.create],
    5: [changes.archive],
    4: [changes.uninteresting_update, changes.several_changes_of_one_row],
    3: [
        *(changes.change_dimensions, changes.delete_and_reinsert, changes.history_purge),
        *(changes.delete, unrelated),
    ],
    2: [changes.move_in_time, changes.odd_text, changes.reinsert_later, empty],
    1: [changes.new_key, changes.purge_and_archive_again],
}

NO_PURGES = {"history_purge": 0, "purge_and_archive_again": 0}
"""Weights without them: a recount of the archive is then a plain count of its rows."""


def mix(truncates: bool = False, weights: Mapping[str, int] | None = None) -> Mix:
    """Return each kind of change with its weight; `weights` replaces those that it names."""
    chosen = {change: weight for weight, kinds in _BY_WEIGHT.items() for change in kinds}
    if truncates:
        chosen[changes.truncate] = 3
    return {kind: (weights or {}).get(kind.__name__, weight) for kind, weight in chosen.items()}


def inhabit(dsn: str, identity: Identity, seed: int) -> None:
    """Make the application's tables in an empty database, with rows, a few of them with nulls."""
    source.create(dsn)
    fill(dsn, identity, seed)
    source.set_identity(dsn, identity)


def fill(dsn: str, identity: Identity, seed: int) -> None:
    """Fill the empty tables."""
    nulls = 0.02 if identity == "full" else 0.0
    source.fill(dsn, 5, 15, live_rows=2000, history_rows=3000, seed=seed, null_share=nulls)


class Traffic(Sessions[Session]):
    """Sessions that write notifications.

    `weights` replaces the weights of the kinds of change that it names (in `mix`).
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
            mix(truncates, weights),
            sessions,
            seed,
            rate,
        )
