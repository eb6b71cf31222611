"""Which tables the source's server evaluates, and which are copied to the target for it."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import errors

from waltally.database import Connection, Target
from waltally.errors import LoaderError
from waltally.models import Model, ModelTable
from waltally_jobs.common.session import Sessions
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.ranges import Leaf, range_query
from waltally_jobs.evaluation.snapshot import ExportedSnapshot
from waltally_jobs.evaluation.tasks import ROW_AT_FAULT

_DATABASE = "select system_identifier::text, current_database() from pg_control_system()"
_MEANING = """
select
    current_setting('server_version_num')::integer / 10000,
    pg_encoding_to_char(own.encoding),
    own.datcollate,
    own.datctype,
    own.datlocprovider,
    coalesce(to_jsonb(own) ->> 'datlocale', to_jsonb(own) ->> 'daticulocale'),
    pg_database_collation_actual_version(own.oid),
    -- Of the collations of ICU, which a column may name.
    pg_collation_actual_version(to_regcollation('pg_catalog."und-x-icu"'))
from pg_database as own
where own.datname = current_database()
"""
"""What expressions depend on beside their arguments and the time-zone data."""
_EXTENSIONS = """
select own.extname, own.extversion
from pg_extension as own
where exists (
    select from pg_depend as of_own
    where of_own.refclassid = 'pg_extension'::regclass and of_own.refobjid = own.oid
        and of_own.classid = 'pg_type'::regclass
)
order by 1
"""
"""Those that have types."""
_ZONES = "select prosrc from pg_proc where oid = %s::regprocedure"

_FEW_PAGES = 100
"""Up to here the source evaluates, however many groups there are."""


SAMPLED_PAGES = 300
ROWS_PER_GROUP = 10
MAX_GROUPS = 100_000
"""Up to here grouping costs the server less than sending the rows, and takes some 20 MB."""


def differ(source: Connection, target: Target, models: Sequence[Model]) -> bool:
    """Return whether an expression of the models may mean something else in the source's server."""
    if source.ask(_DATABASE) == target.ask(_DATABASE):
        return False
    queries = [_MEANING]
    types = (
        column["type"]
        for model in models
        for table in model.declaration["sources"]
        for column in table["columns"]
    )
    if any("." in type_ for type_ in types):
        queries.append(_EXTENSIONS)
    if any(model.declaration["is_zoned"] for model in models):
        # The source has no function of ours: it gets the text of this one, which takes 0.2 s.
        ((zones,),) = target.ask(_ZONES, (f"{target.table('zone_data')}()",))
        queries.append(zones)
    return any(source.ask(query) != target.ask(query) for query in queries)


def parts_to_move(
    work: Sessions, models: Sequence[Model], exported: ExportedSnapshot
) -> list[tuple[Model, ModelTable]]:
    """Return the tables of which the target evaluates each row, and not the source."""
    leaves = dict(exported.found)
    all_parts = [(model, part) for model in models for part in model.tables]
    if differ(work.source, work.target, models):
        return all_parts
    return [
        (model, part)
        for model, part in all_parts
        if not _has_few_groups(work, model, part, leaves[part.table])
    ]


def _has_few_groups(work: Sessions, model: Model, part: ModelTable, leaves: Sequence[Leaf]) -> bool:
    """Return whether a range of the table has so few groups that the source should evaluate."""
    source = work.source
    leaf = max(leaves, key=lambda each: each.pages, default=None)
    if leaf is None or leaf.pages <= _FEW_PAGES:
        return True
    percent = min(100 * SAMPLED_PAGES / leaf.pages, 100)
    share = min(SAMPLED_PAGES / min(leaf.pages, ranges.PAGES_PER_GROUPED_RANGE), 1.0)
    values = ranges.values(source, part.table, model.needed_columns(part))
    sample = ranges.relation(leaf, values, f" tablesample system ({percent}) repeatable (1)")
    query = range_query(work.target, model, part, f"from {sample}")
    try:
        with source.transaction():
            source.ask("set local lock_timeout = '1s'")
            source.ask("select set_config('timezone', %s, true)", (model.declaration["timezone"],))
            ((rows, groups, singles),) = source.ask(
                "select coalesce(sum(row_count), 0)::bigint, count(*),"
                f" count(*) filter (where row_count = 1) from ({query}) as sampled"
            )
    except LoaderError as error:
        # A row that the query cannot take is found at the source; a lock that waits for the seed's
        # own would make the sample wait for ever.
        if not isinstance(error.__cause__, (*ROW_AT_FAULT, errors.LockNotAvailable)):
            raise
        return True
    # How ANALYZE estimates distinct values: the Duj1 estimator of Haas and Stokes.
    unseen = singles / rows * (1 - share) if rows else 0.0
    estimate = groups / max(1 - unseen, share)
    return bool(estimate <= min(rows / share / ROWS_PER_GROUP, MAX_GROUPS))
