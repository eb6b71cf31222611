"""`loader changes`: reads what was written down of a model's changes."""

from __future__ import annotations

from collections.abc import Iterator
from select import select
from threading import Event

from waltally.database import Target
from waltally.errors import SettingError
from waltally.tables import Table

_TABLE = """
select own.relation
from {0}.model_state as state
inner join {0}.dependent_model as own on own.relation = state.relation
where
    state.slot_name = %s and state.model_name = %s || '_changes'
    and own.declaration ->> 'kind' = 'changes'
"""
_NEWEST = "select coalesce(max(number), 0) from {}.{}"
_NEXT = """
select number, case
    when num_nulls(old, new) = 2 then json_build_object(
        'number', number, 'position', position, 'changed_at', changed_at, 'read_anew', true
    )
    else json_build_object(
        'number', number, 'position', position, 'changed_at', changed_at, 'old', old, 'new', new
    )
end::text
from {}.{} where number > %s order by number limit 1000
"""
_LOOK_SECONDS = 1.0
"""How often a follower asks although nothing was notified."""


def lines(target: Target, model: str, after: int, stop: Event | None) -> Iterator[str]:
    """Yield the kept changes of a model after a number, as JSON; with `stop` until it is set.

    Raises SettingError where the model keeps none, or none of that number was there; NotSetUp,
    MissingRight, CannotConnect.
    """
    target.give_up_locks()
    found = target.ask_staging(_TABLE, (target.slot, model))
    if not found:
        raise SettingError(
            f"No model {model} of the slot {target.slot} keeps its changes",
            "write changes='1 hour' into its config, then `dbt build`",
        )
    table = Table(*found[0][0].split(".", 1))
    ((newest,),) = target.ask(_NEWEST, None, table.schema, table.name)
    if after > newest:
        raise SettingError(
            f"The changes of {model} end with {newest}, so {after} is of a table that is gone",
            "read the model anew, then go on from there: --after of the newest change",
        )
    if stop is not None:
        target.ask("listen waltally")
    while stop is None or not stop.is_set():
        rows = target.ask(_NEXT, (after,), table.schema, table.name)
        for number, line in rows:
            after = number
            yield line
        if not rows:
            if stop is None:
                return
            select([target], [], [], _LOOK_SECONDS)
            with target.explained():
                target.poll()
            target.notifies.clear()
