"""The kinds of change in the traffic, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from demo import archive_changes as archive
from demo import live_changes as live
from demo.session import Session
from demo.source import Identity

Change = Callable[[Session], int]
Mix = dict[Change, int]


def unrelated(session: Session) -> int:
    """A write to a table that is not counted."""
    return session.run("insert into unrelated (note) values (%s)", session.new_id())


def empty(session: Session) -> int:
    """A transaction gets an id and writes nothing."""
    return session.run("select pg_current_xact_id()")


_ALWAYS: Mix = {
    live.insert_one: 10,
    live.insert_many: 6,
    live.status_move: 20,
    live.bulk_update: 2,
    live.change_dimensions: 3,
    live.move_in_time: 2,
    live.uninteresting_update: 4,
    live.odd_text: 2,
    live.rename_service: 2,
    live.several_changes_of_one_row: 4,
    live.new_key: 1,
    live.test_key_delete: 2,
    live.delete: 2,
    live.reinsert_later: 2,
    live.delete_and_reinsert: 3,
    archive.archive: 5,
    archive.history_update: 4,
    archive.history_change_dimensions: 1,
    archive.history_move_in_time: 1,
    archive.history_purge: 3,
    archive.purge_and_archive_again: 1,
    unrelated: 3,
    empty: 2,
}

_UNDER_FULL: Mix = {live.null_dimension: 3, archive.history_null_dimension: 2}

_TRUNCATES: Mix = {live.truncate_live: 1, archive.truncate_history: 1, archive.truncate_both: 1}


def mix(
    identity: Identity = "full",
    truncates: bool = False,
    weights: Mapping[str, int] | None = None,
) -> Mix:
    """Return each kind of change with its weight; `weights` replaces those of the kinds it names.

    Dimensions become null under 'full' only. Raises ValueError for a kind that is not in the mix.
    """
    chosen = dict(_ALWAYS)
    if identity == "full":
        chosen |= _UNDER_FULL
    if truncates:
        chosen |= _TRUNCATES
    by_name = {change.__name__: change for change in chosen}
    for name, weight in (weights or {}).items():
        if name not in by_name:
            raise ValueError(f"no kind of change is called {name}; there are {', '.join(by_name)}")
        chosen[by_name[name]] = weight
    return chosen
