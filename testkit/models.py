"""The dbt models, installed by dbt in this process: parsed once, for all tests of the process."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from waltally.errors import BuildFailed

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")
_SELECT = ("--select", "config.materialized:waltally_fact", "config.materialized:kept_table")


class Models:
    """A project's models, as `dbt run` installs them."""

    def __init__(self) -> None:
        self._manifest: Manifest | None = None
        self._nodes: dict[str, Any] = {}

    def install(self) -> None:
        """Run dbt once, in the environment of this process. Raises BuildFailed."""
        # Every start of pytest imports this module, and few runs need dbt.
        from dbt.cli.main import dbtRunner

        if self._manifest is None:
            parsed = dbtRunner().invoke(["parse", *_QUIET])
            assert parsed.success, parsed.exception
            self._manifest = cast("Manifest", parsed.result)
            self._nodes = copy.deepcopy(dict(self._manifest.nodes))
        # A run leaves its code in the nodes, and would not inline an ephemeral model again.
        self._manifest.nodes = copy.deepcopy(self._nodes)
        done = dbtRunner(manifest=self._manifest).invoke(["run", *_SELECT, *_QUIET])
        if not done.success:
            failed = [
                f"{each.node.name}: {each.message}"
                for each in getattr(done.result, "results", ())
                if each.status not in ("success", "skipped")
            ]
            raise BuildFailed(" ".join([str(done.exception or ""), *failed]).strip())
