"""The dbt models, run by dbt in this process: parsed once, and again where the project changes."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from loader import shipped_files
from loader.build import project_files
from loader.build.plan import Statements
from loader.build.recorder import Recorder
from waltally.errors import BuildFailed

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest
    from psycopg2 import extensions

log = logging.getLogger("loader")

_SELECT = ("--select", "config.materialized:waltally_fact", "config.materialized:kept_table")
"""The materializations of this package: a host project's other models are left alone."""
_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")
_SLICE = ("--vars", "slice_changes: 1000000")
"""A backlog is applied in builds of this many changes, each in its own transaction."""


@dataclass(frozen=True)
class Run:
    """What a run of dbt did."""

    statements: Mapping[str, Statements]
    """By model that succeeded, what was executed for it."""
    failure: BuildFailed | None


class Models:
    """The project's facts, as dbt builds them. Importing dbt takes seconds, so only here."""

    def __init__(self) -> None:
        """Import dbt. Raises BuildFailed where that fails; another try would fail too."""
        try:
            import dbt.adapters.postgres
            import dbt.cli.main  # noqa: F401
        except Exception as error:
            log.debug("dbt cannot be imported", exc_info=error)
            raise BuildFailed(
                f"dbt cannot be imported: {type(error).__name__} ({error})",
                shipped_files.INSTALL_DBT,
            ) from error
        self._manifest: Manifest | None = None
        self._files: project_files.Stamps = {}

    def apply(self) -> None:
        """Run all models once, for a slice of what is staged. Raises BuildFailed."""
        failure = self.run().failure
        if failure is not None:
            raise failure

    @property
    def profile(self) -> Path:
        """The file that the last run has read its connection from."""
        from dbt.flags import get_flags

        flags: Any = get_flags()  # type: ignore[no-untyped-call]
        return Path(flags.PROFILES_DIR) / "profiles.yml"

    def is_outdated(self) -> bool:
        """Whether a file of the project or of its packages is another than parsed."""
        return project_files.differ(self._files)

    def forget(self) -> None:
        """Parse the project anew in the next run."""
        self._manifest = None

    def run(self, models: Iterable[str] = ()) -> Run:
        """Run these models once, by unique_id; without one, all of them.

        Raises BuildFailed where the project cannot be parsed.
        """
        from dbt.cli.main import dbtRunner

        manifest = self._manifest or self._parse()
        names = [".".join(manifest.nodes[model].fqn) for model in models]
        # A run leaves compiled code in the nodes. The next run would take an ephemeral model with
        # such code for one that is already inlined.
        manifest.nodes = copy.deepcopy(self._nodes)
        recorder = Recorder()
        outcome = dbtRunner(manifest=manifest, callbacks=[recorder]).invoke(
            ["run", *(("--select", *names) if names else _SELECT), *_SLICE, *_QUIET]
        )
        said = str(outcome.exception or "")
        done = {}
        for result in getattr(outcome.result, "results", ()):
            if result.status == "success":
                done[result.node.unique_id] = recorder.of(result.node.unique_id)
            elif result.status != "skipped":
                said += f"{result.node.name}: {result.message}; "
        return Run(done, None if outcome.success else _failure(said))

    def connect(self) -> extensions.connection:
        """Open a connection to the profile's database as dbt does, with the profile's role.

        Raises dbt_common.exceptions.DbtRuntimeError where the server refuses it.
        """
        from dbt.adapters.contracts.connection import Connection, ConnectionState
        from dbt.adapters.factory import FACTORY

        adapter: Any = FACTORY.adapters["postgres"]
        opened = adapter.connections.open(
            Connection(
                type=adapter.type(),
                name="waltally",
                state=ConnectionState.INIT,
                handle=None,
                credentials=adapter.config.credentials,
            )
        )
        return cast("extensions.connection", opened.handle)

    def _parse(self) -> Manifest:
        from dbt.cli.main import dbtRunner

        parsed = dbtRunner().invoke(["parse", *_SLICE, *_QUIET])
        if not parsed.success:
            raise _failure(str(parsed.exception))
        manifest = self._manifest = cast("Manifest", parsed.result)
        self._nodes = copy.deepcopy(manifest.nodes)
        self._files = project_files.stamp(_files(manifest))
        return manifest


def _files(manifest: Manifest) -> Iterable[Path]:
    """Yield the files that dbt has parsed, and their folders, without those of dbt itself."""
    from dbt.contracts.files import FilePath

    for file in manifest.files.values():
        if file.project_name not in ("dbt", "dbt_postgres") and isinstance(file.path, FilePath):
            path = Path(file.path.absolute_path)
            yield path
            yield path.parent
            yield Path(file.path.project_root) / "dbt_project.yml"


def _failure(said: str) -> BuildFailed:
    return BuildFailed(
        f"dbt could not apply the models: {' '.join(said.split())}",
        "`dbt build` in the folder of the dbt project shows the whole error",
    )
