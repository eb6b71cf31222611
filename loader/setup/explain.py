"""`loader setup --explain`: what a change of the tables costs the models, before it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import postgast
from google.protobuf.message import DecodeError
from postgast import pg_query_pb2 as pb

from loader.staging.registration import read_registration
from waltally.database import Connection, Target, connect, connect_target
from waltally.errors import SettingError
from waltally.models import Model
from waltally.settings import Settings
from waltally.tables import Table
from waltally.units import duration, plural

GOES_ON, WAITS, SEED = "goes on", "waits", "waits for a seed"

_FEW_GROUPS, _SEEDS_START = 100_000, 2.0
_ROWS_PER_SECOND = {True: 440_000, False: 62_000}
"""By whether groups are few: see docs/performance.md."""
_WIDER = {("int2", "int4"), ("int2", "int8"), ("int4", "int8"), ("varchar", "text")}
_COLUMNS = """
select a.attname::text, a.atttypmod
from pg_attribute as a
inner join pg_class as c on c.oid = a.attrelid
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s and a.attnum > 0
"""
_ROWS = """
select coalesce(sum(greatest(c.reltuples, 0)), 0)
from (values (to_regclass(%s))) as given (own)
cross join lateral (select own union select relid from pg_partition_tree(own)) as part (relid)
inner join pg_class as c on c.oid = part.relid and c.relkind <> 'p'
"""
_DEPENDENTS = """
select own.model_name from {0}.dependents_of(array[%s]) as dependent (relation)
inner join {0}.dependent_model as own using (relation)
where own.declaration ->> 'kind' <> 'changes' order by 1
"""


class Effect(NamedTuple):
    """What a part of a statement does to the models that read a table."""

    table: str
    columns: frozenset[str] | None
    """Only models that need one of these; None: each that reads the table."""
    verdict: str
    why: str
    by_key: bool | None = None
    """Only rows that are kept without their table's old rows, or any other model; None: each."""


class Asked(NamedTuple):
    """What the servers say of the models."""

    models: tuple[Model, ...]
    lengths: dict[str, dict[str, int]]
    """By table and column, the length of its type as the catalog has it; -1 without one."""
    seconds: dict[str, float]
    """By model, about how long a seed of it takes."""
    dependents: dict[str, list[str]]
    """By model, its dependent models."""


def explain(settings: Settings, text: str) -> list[str]:
    """Return what each statement does to each model. Raises LoaderError."""
    statements = _parse(text)
    with (
        closing(connect(settings.source, "source")) as source,
        closing(connect_target(settings)) as target,
    ):
        target.give_up_locks()
        asked = _ask(source, target, read_registration(target).models)
    lines: list[str] = []
    for said, node in statements:
        lines += [said, *(f"  {line}" for line in _lines([*effects(node, asked)], asked))]
    return lines


def _parse(text: str) -> list[tuple[str, pb.Node]]:
    try:
        found = postgast.parse(text).stmts
    except (postgast.PgQueryError, DecodeError) as error:
        raise SettingError(
            f"This is no SQL that PostgreSQL reads: {error}", "give the statements as you run them"
        ) from None
    raw = text.encode()
    texts = (raw[one.stmt_location :][: one.stmt_len or None].decode() for one in found)
    return [(" ".join(said.split()), one.stmt) for said, one in zip(texts, found, strict=True)]


def _ask(source: Connection, target: Target, models: Sequence[Model]) -> Asked:
    tables = sorted({part.table for model in models for part in model.tables}, key=str)
    sizes = {table: _rows(source, table) for table in tables}
    seconds, dependents = {}, {}
    for model in models:
        has_few = _rows(target, model.relation) < _FEW_GROUPS
        rows = sum(sizes[part.table] for part in model.tables)
        seconds[model.name] = _SEEDS_START + rows / _ROWS_PER_SECOND[has_few]
        named = target.ask_staging(_DEPENDENTS, (str(model.relation),))
        dependents[model.name] = [name for (name,) in named]
    return Asked(
        tuple(models),
        {str(table): dict(source.ask(_COLUMNS, (table.schema, table.name))) for table in tables},
        seconds,
        dependents,
    )


def _rows(connection: Connection, table: Table) -> float:
    """Return the server's estimate of a table's rows."""
    return float(connection.ask(_ROWS, (table.quoted,))[0][0])


def _lines(found: Sequence[Effect], asked: Asked) -> Iterator[str]:
    others = 0
    for model in asked.models:
        own = [effect for effect in found if _concerns(effect, model)]
        if not own:
            others += 1
            continue
        effect = min(own, key=lambda one: (SEED, WAITS, GOES_ON).index(one.verdict))
        dependents = asked.dependents[model.name]
        price, others_wait = "", ""
        if effect.verdict == SEED:
            price = f", about {duration(asked.seconds[model.name])} by an estimate"
            others_wait = f"; {', '.join(dependents)} wait with it" if dependents else ""
        yield f"{model.name} {effect.verdict}{price}: {effect.why}{others_wait}"
    yield f"{plural(others, 'other model')} {'goes' if others == 1 else 'go'} on"


def _concerns(effect: Effect, model: Model) -> bool:
    is_by_key = not model.declaration.get("has_old_rows", True)
    return effect.by_key in (None, is_by_key) and any(
        _is(table, effect.table)
        and (effect.columns is None or not effect.columns.isdisjoint(columns))
        for table, columns in model.needed.items()
    )


def _is(table: str, said: str) -> bool:
    """Return whether a statement that names a table so, perhaps without a schema, means it."""
    return said in (table, table.partition(".")[2])


def effects(node: pb.Node, asked: Asked) -> Iterator[Effect]:
    """Yield what a statement does; nothing where no model notices."""
    kind = node.WhichOneof("node")
    statement: Any = getattr(node, kind or "", None)
    if kind == "alter_table_stmt":
        for one in statement.cmds:
            yield from _of_command(_name(statement.relation), one.alter_table_cmd, asked)
    elif kind == "rename_stmt" and statement.rename_type == pb.OBJECT_COLUMN:
        yield from _renamed(_name(statement.relation), statement.subname, statement.newname)
    elif kind in ("rename_stmt", "alter_object_schema_stmt"):
        yield _swapped(_name(statement.relation))
    elif kind == "drop_stmt":
        for dropped in statement.objects:
            yield _swapped(".".join(part.string.sval for part in dropped.list.items))
    elif kind == "create_stmt":
        yield _swapped(_name(statement.relation))
    elif kind == "alter_enum_stmt" and statement.old_val:
        for model in asked.models:
            for own in model.declaration["sources"]:
                labels = {one["name"] for one in own["columns"] if one["type"].startswith("text")}
                yield Effect(
                    own["table"], frozenset(labels), SEED, "if it reads that enum: a label changed"
                )


_LOST = (SEED, "what is written while the table is not logged is lost")
_MOVED = (SEED, "if the other table holds rows: no change says that they came or went")
_OF_TABLES = {
    pb.AT_SetUnLogged: _LOST,
    pb.AT_SetLogged: _LOST,
    pb.AT_AttachPartition: _MOVED,
    pb.AT_DetachPartition: _MOVED,
    pb.AT_AddInherit: _MOVED,
    pb.AT_ReplicaIdentity: (GOES_ON, "`loader setup --check` says whether this one will do"),
}
"""By command of ALTER TABLE, what it does to each model of the table."""


def _of_command(table: str, command: Any, asked: Asked) -> Iterator[Effect]:
    what = command.subtype
    if what in _OF_TABLES:
        yield Effect(table, None, *_OF_TABLES[what])
    elif what == pb.AT_AlterColumnType:
        yield from _typed(table, command, asked)
    elif what == pb.AT_DropColumn:
        name = command.name
        yield Effect(
            *(table, frozenset({name}), SEED),
            f"take {name} out of its query first, then `dbt build`; rows without it cannot be "
            "counted",
        )


def _typed(table: str, command: Any, asked: Asked) -> Iterator[Effect]:
    column, new = command.name, getattr(command, "def").column_def
    name = new.type_name.names[-1].string.sval
    typmods = [one.a_const.ival.ival for one in new.type_name.typmods]
    before = {
        own["type"]
        for model in asked.models
        for source in model.declaration["sources"]
        if _is(source["table"], table)
        for own in source["columns"]
        if own["name"] == column
    }
    only = frozenset({column})
    lengths = [own.get(column, -1) for label, own in asked.lengths.items() if _is(label, table)]
    length = lengths[0] if lengths else -1
    if new.HasField("raw_default") or new.type_name.array_bounds:
        yield Effect(table, only, SEED, f"{column} may get other values; before it `dbt build`")
    elif before == {name} and _is_longer(name, length, typmods):
        yield Effect(table, only, GOES_ON, f"{column} keeps its values")
    elif {(old, name) for old in before} <= _WIDER:
        yield Effect(
            table,
            only,
            GOES_ON,
            f"{column} gets a wider type, and `dbt build` gives it to the model, without a seed;"
            " until then it waits at the first value that is too large",
        )
    else:
        yield Effect(
            table, only, SEED, f"{column} gets other values; `loader setup`, `dbt build`, a seed"
        )


def _is_longer(name: str, length: int, typmods: Sequence[int]) -> bool:
    """Return whether each value of the length stays what it is."""
    if not typmods:
        return True
    if length < 0 or name not in ("varchar", "numeric"):
        return False
    if name == "varchar":
        return typmods[0] >= length - 4
    scale = typmods[1] if len(typmods) > 1 else 0
    digits, old_scale = (length - 4) >> 16, (length - 4) & 0xFFFF
    return scale == old_scale and typmods[0] >= digits


def _renamed(table: str, old: str, new: str) -> Iterator[Effect]:
    only, build = frozenset({old}), f"write {new} into its query, then `loader setup`, `dbt build`"
    yield Effect(table, only, WAITS, f"{build}; it goes on without a seed", by_key=False)
    yield Effect(table, only, SEED, build, by_key=True)


def _swapped(table: str) -> Effect:
    return Effect(
        table,
        None,
        SEED,
        "the name means another table then, and what is written under another name is in no change",
    )


def _name(relation: Any) -> str:
    return ".".join(filter(None, (relation.schemaname, relation.relname)))
