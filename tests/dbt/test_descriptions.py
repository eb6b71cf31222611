"""Whatever the package and the examples have is described, in dbt's docs and in the database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import ModelNode

from demo import example
from testkit.commands import ROOT
from tests.dbt.project import QUIET, messages
from tests.dbt.staged import SHIPPED, Warehouse

COMMENTS = """
    select a.attname::text, col_description(a.attrelid, a.attnum)
    from pg_attribute as a
    where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
    order by a.attnum
"""


def parse(name: str, home: Path) -> Manifest:
    """Return the manifest of an example's project, which has the package's nodes in it."""
    shutil.copytree(example.FOLDER / name / "models", home / "models")
    for file in ("dbt_project.yml", "packages.yml"):
        shutil.copy(example.FOLDER / name / file, home)
    (home / "packages.yml").write_text(f"packages:\n  - local: {ROOT}\n")
    (home / "dbt_packages").mkdir()
    (home / "dbt_packages" / "waltally").symlink_to(ROOT)
    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    folders = ("--project-dir", str(home), "--profiles-dir", str(home))
    targets = ("--target-path", str(home / "target"), "--log-path", str(home / "logs"))
    done = dbtRunner().invoke(["parse", *folders, *targets, *QUIET])
    assert done.success, messages(done)
    return cast(Manifest, done.result)


def undescribed(manifest: Manifest) -> list[str]:
    """Return what a manifest has no description of: models, sources, columns, exposures."""
    found: list[Any] = [
        *(node for node in manifest.nodes.values() if isinstance(node, ModelNode)),
        *manifest.sources.values(),
        *manifest.exposures.values(),
    ]
    missing = [each.unique_id for each in found if not each.description.strip()]
    for each in found:
        columns = getattr(each, "columns", {})
        missing += [
            f"{each.unique_id}.{name}"
            for name, column in columns.items()
            if not column.description.strip()
        ]
        missing += [f"{each.unique_id}.{name}" for name in declared(each) - set(columns)]
    return missing


def declared(node: Any) -> set[str]:
    """Return the columns that a node declares as a fact or as current rows."""
    meta = getattr(node.config, "meta", {}) or {}
    declaration = meta.get("waltally")
    if declaration is None:
        return set()
    names = {each["name"] for each in declaration["dimensions"]}
    if declaration["kind"] == "current_rows":
        return names
    return names | {each["name"] for each in declaration["measures"]} | {"id", *meta["derived"]}


@pytest.mark.parametrize("name", example.names())
def test_everything_is_described(name: str, tmp_path: Path) -> None:
    manifest = parse(name, tmp_path)
    assert undescribed(manifest) == []
    for node in manifest.nodes.values():
        if isinstance(node, ModelNode):
            assert node.config.persist_docs == {"relation": True, "columns": True}, node.name


def test_a_build_puts_the_descriptions_into_the_database(warehouse: Warehouse) -> None:
    warehouse.build(*SHIPPED)
    manifest = warehouse.project.invoke("parse").result
    assert isinstance(manifest, Manifest)
    built = [
        node
        for node in manifest.nodes.values()
        if isinstance(node, ModelNode) and not node.original_file_path.startswith("examples/")
    ]
    assert {node.config.materialized for node in built} == {
        *("waltally_fact", "kept_table", "kept_view")
    }
    for node in built:
        table = f"{node.schema}.{node.name}"
        ((said,),) = warehouse.execute("select obj_description(%s::regclass)", table)
        assert said == node.description
        described = [(name, column.description) for name, column in node.columns.items()]
        assert sorted(warehouse.execute(COMMENTS, table)) == sorted(described)


def test_the_sources_have_the_columns_of_the_staging_tables(warehouse: Warehouse) -> None:
    manifest = warehouse.project.invoke("parse").result
    assert isinstance(manifest, Manifest)
    for source in manifest.sources.values():
        found = warehouse.execute(COMMENTS, f"cdc.{source.name}")
        assert sorted(name for name, _ in found) == sorted(source.columns), source.name
