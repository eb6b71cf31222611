"""The dbt project as a test runs it: in this process, parsed once for each setting."""

from __future__ import annotations

import copy
import os
import re
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from dbt.adapters.exceptions.connection import InvalidConnectionError
from dbt.adapters.factory import get_adapter, register_adapter
from dbt.cli.main import dbtRunnerResult
from dbt.config.runtime import RuntimeConfig
from dbt.context.providers import generate_runtime_macro_context
from dbt.contracts.graph.manifest import Manifest
from dbt.flags import set_from_args
from dbt.mp_context import get_mp_context

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
        self._adapter: Any = None
        self._manifests: dict[tuple[str, ...], tuple[Manifest, dict[str, Any]]] = {}

    @contextmanager
    def without_search_path(self) -> Iterator[None]:
        """Let the profile say nothing of the search path, as one's own may."""
        profile = self.home / "profiles.yml"
        shipped = profile.read_text()
        profile.write_text(re.sub(r"\n +search_path: .*", "", shipped))
        assert profile.read_text() != shipped
        yield
        profile.write_text(shipped)

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
        variables = [value for name, value in pairwise(words) if name == "--vars"]
        return dbt_runner(self._manifest(variables)).invoke(self.arguments(*words, *QUIET))

    def nodes(self, *variables: str) -> list[Any]:
        """The models and the rest, as the manifest holds them."""
        _, nodes = self._parsed(list(variables))
        return list(nodes.values())

    def declared(self, changed: str = "") -> Declared:
        """What `loader setup` reads of the models; `changed` is a variable of theirs."""
        variables = [f"changed: {changed}"] if changed else []
        manifest = self._manifest(variables)
        options = [part for value in variables for part in ("--vars", value)]
        done = dbt_runner(manifest).invoke(self.arguments("compile", *COMPILED, *options, *QUIET))
        assert done.success, messages(done)
        nodes, sources = (
            {name: node.to_dict() for name, node in listed.items()}
            for listed in (manifest.nodes, manifest.sources)
        )
        return Declared("waltally", (), queries=declared_queries(nodes, sources))

    def call(
        self, macro: str, *, model: str = "ft_service_stats", graph: Any = None, **named: Any
    ) -> Any:
        """Call a macro as dbt does while it parses a model. Raises DbtRuntimeError."""
        if self._adapter is None:
            self._macros = self._manifest([])
            chosen = {"project_dir": str(self.home), "profiles_dir": str(self.home)}
            unchosen: dict[str, Any] = {"profile": None, "target": None, "vars": {}, "threads": 1}
            options = Namespace(**chosen, **unchosen)
            set_from_args(options, None)
            config = RuntimeConfig.from_args(options)
            register_adapter(config, get_mp_context())
            self._adapter = get_adapter(config)
            self._adapter.set_macro_context_generator(generate_runtime_macro_context)
        node = SimpleNamespace(name=model, resource_type="model")
        try:
            return self._adapter.execute_macro(
                macro,
                macro_resolver=self._macros,
                project="waltally",
                context_override={"model": node, "graph": graph},
                kwargs=named,
            )
        except InvalidConnectionError as error:  # dbt releases a connection that it never had
            assert isinstance(error.__context__, Exception)
            raise error.__context__ from None

    def _manifest(self, variables: list[str]) -> Manifest:
        """What parsing gives, for a run of dbt.

        A run leaves its code in the nodes, and would not inline an ephemeral model again.
        """
        manifest, nodes = self._parsed(variables)
        manifest.nodes = copy.deepcopy(nodes)
        return manifest

    def _parsed(self, variables: list[str]) -> tuple[Manifest, dict[str, Any]]:
        """What parsing gives in this environment; all other settings are read when a model runs."""
        parsed_by = [value for value in variables if "changed" in value]
        names = ("PGDATABASE", "LOADER_SCHEMA", "DBT_SCHEMA")
        key = (*parsed_by, *(os.environ.get(name, "") for name in names))
        if key not in self._manifests:
            options = [part for value in parsed_by for part in ("--vars", value)]
            parsed = dbt_runner().invoke(self.arguments("parse", *options, *QUIET))
            assert parsed.success, messages(parsed)
            manifest = cast(Manifest, parsed.result)
            self._manifests[key] = manifest, copy.deepcopy(dict(manifest.nodes))
        return self._manifests[key]


@cache
def shared_project() -> Project:
    """Return the one project of this process: what dbt has parsed and installed stays."""
    return Project(Path(tempfile.mkdtemp()))


def messages(done: dbtRunnerResult) -> str:
    """The error messages of a run and of its nodes."""
    results = getattr(done.result, "results", [])
    return "\n".join([str(done.exception or ""), *(str(each.message) for each in results)])
