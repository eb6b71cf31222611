"""Follows partitioned tables whose partitions come and go.

A session asks the slot for exactly the leaves that the catalog has when it begins. Before it stores
a position, it looks at the catalog in a snapshot that shows every transaction streamed so far. If
the leaves have changed, it stores nothing, and another session begins at the same position with the
new leaves. So no change of a new leaf is missed, and tables that nobody counts cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from loader.capture.stages import Stage
from loader.capture.stages.leaf_names import LeafNames, tables_of
from loader.capture.stages.moved_rows import MovedRows
from loader.source.leaf_catalog import LeafCatalog
from loader.staging.logged_tables import Gap, Judged, Kept, judge, renewed
from loader.staging.records import Registration
from waltally.tables import Table

_Key = TypeVar("_Key", Table, bytes)


class Partitions:
    """The partitioned tables of one session, and the stages for the changes of their partitions."""

    def __init__(
        self,
        catalog: LeafCatalog,
        registered: Registration,
        position_lsn: int,
    ) -> None:
        """Compare the catalog with what is stored. Raises LoaderError.

        Where there are partitioned tables, nobody else uses the catalog's connection from here on.
        """
        self._catalog = catalog
        self._registered = registered
        self._judged: dict[Table, Judged] = {}
        for table, root in catalog.roots.items():
            counts_deletes = self._has_deletes(table, ignored=False)
            self._judged[table] = judge(
                *(registered.leaves.get(table), root, catalog.present),
                *(counts_deletes, position_lsn),
            )
        self.roots = {table: judged.root for table, judged in self._judged.items()}
        """By partitioned table, what to store of it."""
        self.names = LeafNames({}, {})
        self.moved = MovedRows({})
        self._ignoring: dict[bytes, Table] = {}
        if self.roots:
            self._make_stages()

    def _make_stages(self) -> None:
        tables = tables_of(self.roots)
        spelled = dict(zip(tables, self._catalog.spell(tables), strict=True))
        births = {
            member.table: (int(member.born), at)
            for root in self.roots.values()
            for oid, at in root.young
            for member in root.members
            if member.oid == oid
        }
        self.names = LeafNames(self.roots, spelled, births)
        keys = self._catalog.lasting_keys()
        self._ignoring = {
            spelled[table]: table for table in self.roots if self._has_deletes(table, ignored=True)
        }
        self.moved = MovedRows({name: keys[str(table)] for name, table in self._ignoring.items()})

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that the slot has to send."""
        return tuple(dict.fromkeys((*self._registered.tables, *tables_of(self.roots))))

    @property
    def stages(self) -> tuple[Stage | None, Stage | None]:
        """The stage that renames leaves and the one that joins moved rows; None: not needed."""
        return (
            self.names.rename if self.roots else None,
            self.moved.join if self._ignoring else None,
        )

    def followed(self, kept: Kept, position_lsn: int) -> dict[Table, dict[str, int]]:
        """Return since when the log has each column, once the session follows `kept`.

        A table with a leaf whose changes reach no slot is not followed.
        """
        starts = {}
        for table, judged in self._judged.items():
            if judged.has_gap:
                starts[table] = self._catalog.read_lsn + 1
            elif table not in self._registered.followed:
                # Setup read the leaves. It did not see a leaf that was made and dropped before.
                before = self._registered.leaves[table]
                starts[table] = max(position_lsn, before.read_lsn + 1)
        fit = {
            table: columns
            for table, columns in kept.items()
            if table not in self.roots or not self.roots[table].unfit
        }
        return renewed(self._registered.followed, fit, position_lsn, starts)

    def changed(self) -> Iterator[tuple[Table, Gap]]:
        """Yield what the log lacks because leaves have changed since they were stored."""
        for table, judged in self._judged.items():
            if judged.event and table in self._registered.followed:
                yield table, Gap(self._catalog.read_lsn + 1, judged.event)

    def noted(self) -> Iterator[tuple[Table, Gap]]:
        """Yield what the log lacks of a table.

        Each of them once: the next call has only what newer changes show.
        """
        for table, position in _taken(self.names.mixed).items():
            what = "has a partition whose name another table had before"
            yield table, Gap(position, what)
        for name, position in _taken(self.moved.undecided).items():
            table = self._ignoring[name]
            what = (
                "ignores deletes and has no primary key beside its partition key, and a row may "
                "have moved between its partitions"
            )
            yield table, Gap(position, what)
        for table, position in _taken(self.names.truncated).items():
            self.roots[table] = self.roots[table].emptied_at(position)
            if self._has_deletes(table, ignored=False):
                yield table, Gap(position, "had a partition truncated, and not all of it")

    def _has_deletes(self, table: Table, ignored: bool) -> bool:
        return any(
            part.table == table and part.ignores_deletes == ignored
            for model in self._registered.models
            for part in model.tables
        )


def _taken(noted: dict[_Key, int]) -> dict[_Key, int]:
    """Remove and return what the reading thread has noted. It may note more meanwhile."""
    return {key: noted.pop(key) for key in list(noted)}
