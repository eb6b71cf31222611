"""DDL under load: of the kind that changes nothing that is counted, and of the kind that does."""

from __future__ import annotations

from tests.soak.failure import SoakFailed
from tests.soak.system import System
from tests.soak.world import KINDS, MODELS, NOTIFY, ODD, ODD_ROWS
from waltally.tables import quoted

HARMLESS = (
    "vacuum full {table}",
    "vacuum (freeze, analyze) {table}",
    "reindex table {table}",
    "alter table {table} add extra int default 7; alter table {table} drop extra",
    "alter table {table} add extra uuid default gen_random_uuid(); alter table {table} drop extra",
    "alter table {table} add extra text; update {table} set extra = 'x'; "
    "alter table {table} rename extra to more; alter table {table} drop more",
    "alter table {table} set (fillfactor = 90); alter table {table} reset (fillfactor)",
    "grant select on {table} to public; revoke select on {table} from public",
    "comment on table {table} is 'x'",
    "alter table {table} add constraint positive check (true) not valid; "
    "alter table {table} drop constraint positive",
)
"""Each statement is a transaction of its own, which waits at most for the writers."""

SILENT = (
    "alter table {table} set unlogged; {insert}; alter table {table} set logged",
    "alter table {table} alter {first} type text using coalesce({first}, '') || '.'",
    "{swap}; {insert}; {swap}",
    "alter schema {schema} rename to away; {insert_away}; alter schema away rename to {schema}",
)
"""Each is one transaction: nobody else sees the table under another name."""

_SWAP = (
    "alter table {table} rename {first} to other; alter table {table} rename {second} to {first}; "
    "alter table {table} rename other to {second}"
)


def harmless_ddl(system: System) -> None:
    """Alter tables in ways that change no count: every model goes on."""
    odd = system.odd.table
    table = system.random.choice(["notifications", "notification_history", odd, odd])
    for statement in system.random.choice(HARMLESS).split(";"):
        system.ask(statement.format(table=table))
    system.wait_until_staged()
    for model in MODELS:
        if "does not hold everything" in system.reason(model):
            raise SoakFailed(f"{model} waits after harmless DDL: {system.reason(model)}")


def silent_ddl(system: System) -> None:
    """Change rows by DDL without changes of rows: the models wait for a seed, which is taken."""
    odd = system.odd
    first, second, _ = map(quoted, odd.texts)
    insert = odd.insert()
    parts = {"table": odd.table, "schema": quoted(odd.schema), "first": first, "second": second}
    parts |= {
        "insert": insert,
        "insert_away": insert.replace(odd.table, f"away.{quoted(odd.name)}"),
        "swap": _SWAP.format(**parts),
    }
    system.must_build()
    with system.transaction() as cursor:
        cursor.execute(system.random.choice(SILENT).format(**parts))
    for model in (ODD, ODD_ROWS):
        system.wait_for_model(model, "waits")
    # The others go on, before the seed and after it.
    system.wait_until_applied(NOTIFY, KINDS)
    with system.writers.without_truncates():
        system.run("spark-submit", "spark/seed.py")
    system.wait_until_applied(*MODELS)
