"""`cdc.model_state` says what is true of a model, and what helps whatever else runs."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any, cast

from loader.monitoring.findings import of_models
from loader.staging import target_state
from testkit.servers import connect_target
from tests.dbt.staged import DATABASE, MODEL, SLOT, START, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import locks


def findings(warehouse: Warehouse) -> dict[str, str]:
    """What `loader status` finds of the installed models, with the remedies."""
    with closing(connect_target(warehouse.cluster.dsn(DATABASE), SLOT)) as target:
        stored = target_state.read_stored(target)
    assert stored is not None
    found = of_models([model for model in stored.models if model.remedy != "`dbt build`"])
    return {str(each): each.remedy for each in found}


def test_models_that_need_the_same_are_one_finding(warehouse: Warehouse) -> None:
    warehouse.seed({}, at=START)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL, "ft_services", "ft_key_types")
    warehouse.execute("update cdc.model_watermark set declaration = null, baseline_id = null")
    warehouse.execute("delete from cdc.baseline where declared_name <> 'ft_service_stats'")
    both = "`spark-submit spark/seed.py --model ft_key_types --model ft_services`"
    assert findings(warehouse) == {
        "The models ft_key_types, ft_services wait: it waits for its seed: without the rows from "
        "before its numbers would be wrong": both
    }


def test_a_lock_has_one_number_in_python_in_the_database_and_in_dbt(warehouse: Warehouse) -> None:
    for names in (["a"], ["a", "b"], ['Ä "b"\'', "c d"]):
        stored = warehouse.value("select cdc.lock_key('seeding', variadic %s::text[])", names)
        assert stored == locks.key("seeding", *names)
        macro = f"select {{{{ waltally.lock_key('dbt relation', {json.dumps(names[0])}) }}}}"
        (made,) = cast("Any", warehouse.project.invoke("compile", "--inline", macro).result).results
        assert warehouse.value(made.node.compiled_code) == locks.key("dbt relation", names[0])
