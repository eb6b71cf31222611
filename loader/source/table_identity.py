"""Whether a name still means the table that was counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from loader.staging.logged_tables import Fingerprint, alterations
from waltally.errors import LoaderError, TableReplaced
from waltally.models import Model


class TableIdentity(TypedDict):
    """Distinguishes a table from another of the same name."""

    table_oid: int
    named_xid: int
    """The transaction that last gave it its name: the xmin of its row in pg_type.

    RENAME TO, SET SCHEMA and OWNER TO write that row again; no other command does, VACUUM FREEZE
    and FULL included."""
    column_numbers: dict[str, int]
    """The attribute numbers of the needed columns that it has."""
    names: dict[str, str]
    """What all its columns are called, by number."""
    fingerprint: Fingerprint
    """What its needed columns are: see FingerprintCatalog."""


TableIdentities = Mapping[str, TableIdentity]
"""By `schema.name`."""


def of_model(identities: TableIdentities, model: Model) -> TableIdentities:
    """Return the identities of one model's tables, with only its columns."""
    return {
        relation: {
            **identities[relation],
            "column_numbers": {
                name: number
                for name, number in identities[relation]["column_numbers"].items()
                if name in columns
            },
            "fingerprint": {
                name: own
                for name, own in identities[relation]["fingerprint"].items()
                if name in ("", *columns)
            },
        }
        for relation, columns in model.needed.items()
        if relation in identities
    }


def replaced_findings(
    models: Sequence[Model], counted: Mapping[str, TableIdentities], current: TableIdentities
) -> list[LoaderError]:
    """Return a finding for each table that is not the one that the models counted."""
    findings: dict[str, LoaderError] = {}
    for model in models:
        finding = replaced_finding(model, counted.get(model.name, {}), current)
        if finding is not None:
            findings.setdefault(str(finding), finding)
    return list(findings.values())


def replaced_finding(
    model: Model, counted: TableIdentities, current: TableIdentities
) -> LoaderError | None:
    """Return a finding where a table or column is not the one that was counted.

    A table that was renamed and renamed back is the same one, but the log lacks the changes made
    under the other name. Another check reports missing tables and columns.
    """
    for name, before in of_model(counted, model).items():
        now = current.get(name, before)
        if events := alterations(before["fingerprint"], now["fingerprint"]):
            return TableReplaced(
                f"{name} was altered: {', '.join(events.values())}; the counts are still of what "
                "was there before",
                "see that `loader run` runs, then `spark-submit spark/seed.py`",
            )
    return None
