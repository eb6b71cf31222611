"""What readers of the facts do to them: locks, and a constraint that no row can satisfy."""

from __future__ import annotations

from tests.soak.failure import SoakFailed
from tests.soak.system import System
from tests.soak.world import MODELS


def lock_shared(system: System) -> None:
    """Read a model in a long transaction: all models go on, and the reader sees one moment."""
    model = system.random.choice(MODELS)
    rows = (
        "select count(*), md5(string_agg(kept::text, '|' order by kept::text)) "
        f"from analytics.{model} as kept"
    )
    system.must_build()
    with system.transaction(system.target_dsn) as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute(rows)
        before = cursor.fetchall()
        system.wait_until_applied(*MODELS)
        cursor.execute(rows)
        if cursor.fetchall() != before:
            raise SoakFailed(f"a reader saw {model} change within its snapshot")


def lock_exclusively(system: System) -> None:
    """Keep everybody from a model for seconds: the others go on, and it catches up."""
    model, *others = system.random.sample(MODELS, len(MODELS))
    system.must_build()
    with system.transaction(system.target_dsn) as cursor:
        cursor.execute(f"lock table analytics.{model} in access exclusive mode")
        system.wait_until_applied(*others)
        system.pause_randomly(0, 3)
    system.wait_until_applied(*MODELS)


def constrain(system: System) -> None:
    """Let a model take no row: it fails alone, and catches up without the constraint."""
    model, *others = system.random.sample(MODELS, len(MODELS))
    table = f"analytics.{model}"
    system.must_build()
    system.ask_target(f"alter table {table} add constraint no_row check (false) not valid")
    try:
        system.wait_for_model(model, "failed")
        system.wait_until_applied(*others)
        system.pause_randomly(0, 3)
    finally:
        system.ask_target(f"alter table {table} drop constraint no_row")
    system.wait_until_applied(*MODELS)
