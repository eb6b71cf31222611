"""Faults of tables: DDL at the source; locks, a constraint and what people do at the models."""

from __future__ import annotations

from psycopg2.errors import DeadlockDetected

from soak.faults.fault import fault
from soak.programs import SoakFailed
from soak.system import Soaked
from soak.world import BY_SPARK, MODELS, PARCELS, READ_TOGETHER, REGIONS, TABLES
from testkit.source import transaction

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


@fault(4)
def harmless_ddl(system: Soaked) -> None:
    """Alter tables in ways that change no count: every model goes on."""
    table = system.random.choice(TABLES)
    for statement in system.random.choice(HARMLESS).split(";"):
        try:
            system.ask(statement.format(table=table))
        except DeadlockDetected:  # with a writer that holds another table and waits for this one
            system.ask(statement.format(table=table))
    system.wait_until_staged()
    for model in MODELS:
        reason = system.of_model("reason", model) or ""
        if "does not hold everything" in reason:
            raise SoakFailed(f"{model} waits after harmless DDL: {reason}")


@fault(2)
def lock_shared(system: Soaked) -> None:
    """Read a model in a long transaction: all models go on, and the reader sees one moment."""
    model = system.random.choice(MODELS)
    rows = (
        "select count(*), md5(string_agg(kept::text, '|' order by kept::text)) "
        f"from analytics.{model} as kept"
    )
    system.must_build()
    with transaction(system.target_dsn) as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute(rows)
        before = cursor.fetchall()
        system.wait_until_applied(*MODELS)
        cursor.execute(rows)
        if cursor.fetchall() != before:
            raise SoakFailed(f"a reader saw {model} change within its snapshot")


@fault(2)
def lock_exclusively(system: Soaked) -> None:
    """Keep everybody from a model for seconds: the others go on, and it catches up."""
    model, *others = system.random.sample(MODELS, len(MODELS))
    others = [each for each in others if not {model, each} <= READ_TOGETHER]
    system.must_build()
    with transaction(system.target_dsn) as cursor:
        cursor.execute(f"lock table analytics.{model} in access exclusive mode")
        system.wait_until_applied(*others)
        system.pause_randomly(0, 3)
    system.wait_until_applied(*MODELS)


@fault(2)
def constrain(system: Soaked) -> None:
    """Let a model take no row: it fails alone, and catches up without the constraint."""
    model, *others = system.random.sample(MODELS, len(MODELS))
    table = f"analytics.{model}"
    system.must_build()
    system.ask_target(f"alter table {table} add constraint no_row check (false) not valid")
    system.wait_for_model(model, "failed")
    system.wait_until_applied(*others)
    system.pause_randomly(0, 3)
    system.ask_target(f"alter table {table} drop constraint no_row")
    system.wait_until_applied(*MODELS)


@fault(1)
def redeclare_roll_up(system: Soaked) -> None:
    """Give a roll-up another measure, and take it away again."""
    system.must_build()
    for options in (["--vars", '{"more": "yes"}'], []):
        system.do("dbt", "run", "--select", REGIONS, *options)
        system.wait_for_model(REGIONS, "follows")
        row = f"select to_jsonb(rolled) ? 'smallest' from analytics.{REGIONS} as rolled limit 1"
        if system.ask_target(row) not in (None, bool(options)):
            raise SoakFailed(f"{REGIONS} has not the columns of {options}")


@fault(1)
def truncate_input(system: Soaked) -> None:
    """Empty the model that a roll-up is made of by hand: a seed of the model heals both."""
    system.must_build()
    system.ask_target(f"truncate analytics.{PARCELS}")
    system.pause_randomly(0, 1)
    with system.without_truncates():
        system.do("spark-submit", "spark/seed.py", "--model", PARCELS)
    system.wait_until_applied(*BY_SPARK)
