"""A user's own dbt project, which has waltally as a package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from testkit.commands import ROOT

_PROJECT = """
name: host
version: 0.1.0
config-version: 2
profile: waltally
model-paths: [models]
dispatch: [{macro_namespace: dbt, search_order: [host, waltally, dbt]}]
flags:
  send_anonymous_usage_stats: false
"""


def host_project(folder: Path, models: Mapping[str, str]) -> Path:
    """Make a project with these models, by name, in the folder; return where it is."""
    project = folder / "host"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text(_PROJECT)
    (project / "packages.yml").write_text(f"packages:\n  - local: {json.dumps(str(ROOT))}\n")
    # As `dbt deps` does for a local package.
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "waltally").symlink_to(ROOT)
    for name, text in models.items():
        (project / "models" / f"{name}.sql").write_text(text)
    return project
