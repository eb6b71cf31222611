"""Asks a server's catalog what the tables and columns that models need are: their fingerprint.

A label of an enum keeps its oid when it is renamed, and then stored changes have its old name,
while the old rows of changes to come have the new one. So it is with an attribute that a composite
gets. Between timestamp and timestamptz ALTER TABLE may change a column without writing its rows,
and another primary key tells a table's rows apart by other columns. A name may come to mean another
table or column, whose rows no change has brought.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from loader.source.statements import statement
from loader.source.table import READ_ALIKE
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Fingerprint
from waltally import lsn
from waltally.database import Connection
from waltally.models import Model, identity_columns, needed_columns, source_tables
from waltally.tables import Table

_LABELS = """
select
    (select coalesce(jsonb_object_agg(e.oid, e.enumlabel), '{}') from pg_enum as e
    where e.enumtypid = any(%s::oid[])),
    pg_current_snapshot()::text
"""


class FingerprintCatalog:
    """The fingerprints of the models' tables, as one server has them at one moment."""

    def __init__(self, connection: Connection, models: Sequence[Model]) -> None:
        """Read them. Raises LoaderError."""
        self._connection, self._models = connection, models
        tables = source_tables(models)
        listed = [
            {
                "relation": str(table),
                "schema": table.schema,
                "name": table.name,
                "columns": needed_columns(models, table),
                "key": identity_columns([m for m in models if m.kind == "rows"], table),
            }
            for table in tables
        ]
        values = {"tables": json.dumps(listed), "read_alike": [*READ_ALIKE]}
        ((identities, enums, read_lsn, snapshot),) = connection.ask(
            statement("fingerprint"), values
        )
        for identity in identities.values():
            identity["column_numbers"] = {
                name: int(own["number"])
                for name, own in identity["fingerprint"].items()
                if "number" in own
            }
        self.identities: TableIdentities = identities
        """Of the tables that are there."""
        self.fingerprints: dict[Table, Fingerprint] = {
            table: identities[str(table)]["fingerprint"] if str(table) in identities else {}
            for table in tables
        }
        self.read_lsn = lsn.parse(read_lsn)
        """Everything that the catalog showed was committed before this."""
        self.snapshot = str(snapshot)
        """That in which it was read."""
        self._enums: list[int] = enums
        self._labels = {
            oid: label
            for columns in self.fingerprints.values()
            for own in columns.values()
            for oid, label in own.items()
            if oid.isdigit()
        }

    @property
    def has_enums(self) -> bool:
        """Whether a needed column has labels."""
        return bool(self._enums)

    def compare(self, connection: Connection) -> tuple[bool, str]:
        """Return whether all of it that is there is the same in another session, and its snapshot.

        Raises LoaderError.
        """
        now = FingerprintCatalog(connection, self._models)
        same = (
            now.fingerprints[table] in ({}, before) for table, before in self.fingerprints.items()
        )
        return all(same), now.snapshot

    def look_again(self) -> tuple[bool, str]:
        """Return whether each enum has the same labels, and the snapshot that shows it."""
        ((labels, snapshot),) = self._connection.ask(_LABELS, (self._enums,))
        return labels == self._labels, str(snapshot)
