"""The former names of what is in tests/support, until every folder uses the new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.build.builder import Models
from tests.support.commands import SECRET, profiles, sentence
from tests.support.commands import RunningLoader as Running
from tests.support.databases import Database
from tests.support.pipeline import Pipeline

__all__ = ["SECRET", "Running", "Scene", "profiles", "sentence"]


class Scene(Pipeline):
    """A pipeline whose builds leave their environment to the test's own jobs."""

    def __init__(
        self,
        source: Database,
        home: Path,
        models: Models,
        patch: pytest.MonkeyPatch,
        target: Database | None = None,
    ) -> None:
        super().__init__(source, home, models, target)
        self._patch = patch

    def build(self) -> None:
        """Apply the models in this process."""
        for name, value in self.target.environment(LOADER_SLOT=self.slot).items():
            if name.startswith(("PG", "LOADER_")):
                self._patch.setenv(name, value)
        self._models.apply()
