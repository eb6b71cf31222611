"""How far each dbt model has applied the change log."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions, sql

from waltally import lsn
from waltally.database import explained

MORE_IS_STAGED = """
exists (
    select from {0}.change_log as staged
    where staged.slot_name = mark.slot_name and staged.commit_lsn >= mark.applied_lsn
)
"""
"""SQL: whether the log holds what the row `mark` of model_watermark has not applied."""


@dataclass(frozen=True)
class Watermarks:
    """The position of record and the positions of the models, at one moment."""

    position_lsn: int
    applied_lsn: dict[str, int]
    """By model; models that another project or target made are here too."""
    rejected_lsn: dict[str, int]
    """By model, the newest change that it could not count; only models that have such a change."""
    staging: tuple[int, int] = (0, 0)
    """The numbers of the newest registration and of the staging schema's newest migration."""

    def is_behind(self, before: Watermarks) -> bool:
        """Say whether another build is needed after one that began at `before`.

        Only models that moved count: one that did not move belongs to another project.
        """
        return any(
            applied < before.position_lsn and applied != before.applied_lsn.get(model)
            for model, applied in self.applied_lsn.items()
        )

    def rejections(self, before: Watermarks) -> dict[str, int]:
        """Return, by model, the newest change that it could not count and that is new since."""
        return {
            model: rejected
            for model, rejected in self.rejected_lsn.items()
            if rejected > before.rejected_lsn.get(model, 0)
        }


def read_watermarks(connection: extensions.connection, schema: str, slot: str) -> Watermarks:
    """Return a slot's watermarks. Raises LoaderError where the target cannot be asked."""
    query = sql.SQL(
        "select position_lsn, registration, (select max(version) from {0}.schema_migration), "
        "model_name, applied_lsn, "
        # A model that does not record its rejections has the end of its last batch there.
        "case when rejected_lsn < applied_lsn then rejected_lsn end from {0}.slot_position "
        "left join {0}.model_watermark using (slot_name) where slot_name = %s"
    ).format(sql.Identifier(schema))
    with explained("target"), connection, connection.cursor() as cursor:
        cursor.execute(query, (slot,))
        rows = cursor.fetchall()
    return Watermarks(
        lsn.parse(rows[0][0]) if rows else 0,
        {model: lsn.parse(applied) for *_, model, applied, _ in rows if model is not None},
        {model: lsn.parse(rejected) for *_, model, _, rejected in rows if rejected is not None},
        rows[0][1:3] if rows else (0, 0),
    )


def freshness(
    connection: extensions.connection,
    schema: str,
    slot: str,
    before: Watermarks,
    after: Watermarks,
) -> dict[str, float]:
    """Return, by model, the age in seconds of the newest change applied since `before`.

    A model that applied nothing is left out. So is a new one: it was built from old changes.
    Raises LoaderError.
    """
    newest = sql.SQL(
        "select extract(epoch from clock_timestamp() - committed_at)::float8 "
        "from {}.change_log where slot_name = %s and commit_lsn >= %s and commit_lsn < %s "
        "order by slot_name desc, commit_lsn desc, ordinal desc limit 1"
    ).format(sql.Identifier(schema))
    found = {}
    with explained("target"), connection, connection.cursor() as cursor:
        for model, applied in after.applied_lsn.items():
            start = before.applied_lsn.get(model, applied)
            if start < applied:
                cursor.execute(newest, (slot, lsn.show(start), lsn.show(applied)))
                if (row := cursor.fetchone()) is not None:
                    found[model] = max(0.0, row[0])
    return found
