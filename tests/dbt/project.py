"""The dbt project as a test runs it: in this process, parsed once for each setting."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, cast

from dbt.cli.main import dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest

from loader.setup.dbt_project import COMPILED
from loader.setup.declared import Declared
from loader.setup.query import declared_queries
from testkit.commands import ROOT, dbt_runner

# dbt never closes the log file that each invocation opens.
QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")


class Project:
    """The dbt project with the example models beside its own, parsed once for each setting."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("dbt_project", "selectors.yml"):
            (home / name).symlink_to(ROOT / name)
        (home / "examples").symlink_to(ROOT / "tests/dbt/examples")
        settings = (ROOT / "dbt_project.yml").read_text()
        paths = "model-paths: [dbt_project/models]"
        assert paths in settings
        both = "model-paths: [dbt_project/models, examples]"
        (home / "dbt_project.yml").write_text(settings.replace(paths, both))
        shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
        self._manifests: dict[tuple[str | None, ...], tuple[Manifest, dict[str, Any]]] = {}

    def arguments(self, *words: str) -> list[str]:
        folders = {
            "--project-dir": self.home,
            "--profiles-dir": self.home,
            "--target-path": self.home / "target",
            "--log-path": self.home / "logs",
        }
        return [*words, *(part for name, path in folders.items() for part in (name, str(path)))]

    def invoke(self, *words: str) -> dbtRunnerResult:
        """Run dbt in this process, on a manifest that was parsed before where it needs no more."""
        if words[0] not in ("run", "build", "test", "ls"):
            return dbt_runner().invoke(self.arguments(*words, *QUIET[:-1]))
        return dbt_runner(self._manifest()).invoke(self.arguments(*words, *QUIET))

    def declared(self) -> Declared:
        """What `loader setup` reads of the models."""
        manifest = self._manifest()
        done = dbt_runner(manifest).invoke(self.arguments("compile", *COMPILED, *QUIET))
        assert done.success, messages(done)
        nodes, sources = (
            {name: node.to_dict() for name, node in listed.items()}
            for listed in (manifest.nodes, manifest.sources)
        )
        return Declared("waltally", (), queries=declared_queries(nodes, sources))

    def _manifest(self) -> Manifest:
        """What parsing gives in this environment; all other settings are read when a model runs.

        A run leaves its code in the nodes, and would not inline an ephemeral model again.
        """
        key = tuple(os.environ.get(name) for name in ("PGDATABASE", "LOADER_SCHEMA", "DBT_SCHEMA"))
        if key not in self._manifests:
            parsed = dbt_runner().invoke(self.arguments("parse", *QUIET))
            assert parsed.success, messages(parsed)
            manifest = cast(Manifest, parsed.result)
            self._manifests[key] = manifest, copy.deepcopy(dict(manifest.nodes))
        manifest, nodes = self._manifests[key]
        manifest.nodes = copy.deepcopy(nodes)
        return manifest


@cache
def shared_project() -> Project:
    """Return the one project of this process: what dbt has parsed and installed stays."""
    return Project(Path(tempfile.mkdtemp()))


def messages(done: dbtRunnerResult) -> str:
    """The error messages of a run and of its nodes."""
    results = getattr(done.result, "results", [])
    return "\n".join([str(done.exception or ""), *(str(each.message) for each in results)])
