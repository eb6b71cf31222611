"""The dbt models, installed by dbt in this process: once for all databases of the process."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from testkit.commands import dbt_runner
from testkit.databases import Database, paste
from waltally.errors import BuildFailed

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")
_SELECT = ("--select", "config.materialized:waltally_fact", "config.materialized:kept_table")


_REGISTERED = """
select
    model.model_name, fact_name, declaration::text, routine, reader, needs::text, gives::text,
    engine,
    array_agg(made.name) filter (where kind = 'function'),
    array_agg(made.name) filter (where kind = 'column')
from cdc.installed_model as model
inner join cdc.batch_reader using (reader)
inner join cdc.installed_object as made using (model_name)
where slot_name = %s
group by model.slot_name, model.model_name, gives
"""
_REGISTER = "select cdc.install_model(%s, %s, %s, %s, %s, %s, %s, %s, true, %s, %s, %s)"


class Models:
    """A project's models, as `dbt run` installs them.

    dbt parses and runs once. Another database gets a copy of what that made, and is registered for
    as dbt does.
    """

    def __init__(self) -> None:
        self._manifest: Manifest | None = None
        self._nodes: dict[str, Any] = {}
        self._made: str | None = None
        self._registered: list[tuple[Any, ...]] = []

    def copy_into(self, target: Database, slot: str) -> None:
        """Install for a slot: by dbt the first time, then by a copy. Raises BuildFailed."""
        is_empty = target.value("select to_regnamespace('analytics') is null")
        if not is_empty or self._made is None:
            self.install()
            if is_empty and not target.execute("select 1 from cdc.roll_up"):
                dsn = target.cluster.dsn(target.name)
                self._made = target.cluster.run("pg_dump", "-s", "-n", "analytics", "-d", dsn)
                self._registered = target.execute(_REGISTERED, slot)
            return
        paste(target.cluster, target.name, self._made)
        for model in self._registered:
            target.execute(_REGISTER, slot, *model)

    def install(self) -> None:
        """Run dbt once, in the environment of this process. Raises BuildFailed."""
        if self._manifest is None:
            parsed = dbt_runner().invoke(["parse", *_QUIET])
            assert parsed.success, parsed.exception
            self._manifest = cast("Manifest", parsed.result)
            self._nodes = copy.deepcopy(dict(self._manifest.nodes))
        # A run leaves its code in the nodes, and would not inline an ephemeral model again.
        self._manifest.nodes = copy.deepcopy(self._nodes)
        done = dbt_runner(self._manifest).invoke(["run", *_SELECT, *_QUIET])
        if not done.success:
            failed = [
                f"{each.node.name}: {each.message}"
                for each in getattr(done.result, "results", ())
                if each.status not in ("success", "skipped")
            ]
            raise BuildFailed(" ".join([str(done.exception or ""), *failed]).strip())
