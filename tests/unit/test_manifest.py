"""What dbt's manifest says of models, or one sentence for each that cannot be one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from loader.setup.dbt_project import find_project, read_manifest
from testkit.commands import ROOT
from testkit.model import NOTIFY, Query, manifest_of
from waltally.errors import SettingError
from waltally.tables import Table

ORDERS = Query("select id, shop_id from {shop.orders}")


def manifest(**nodes: Mapping[str, Any]) -> Path:
    """A manifest of the model ft_service_stats, changed in these ways."""
    text = json.loads(manifest_of({"ft_service_stats": NOTIFY}).read_text())
    (usual,) = text["nodes"].values()
    text["nodes"] = {key: {**usual, **node} for key, node in nodes.items()}
    path = Path(mkdtemp()) / "manifest.json"
    path.write_text(json.dumps(text))
    return path


def test_the_models_are_those_of_the_materialization() -> None:
    declared = read_manifest(manifest_of({"ft_b": NOTIFY, "ft_a": ORDERS}, "x.y"))
    first, second = declared.queries
    assert (first.name, first.relation) == ("ft_a", Table("x.y", "ft_a"))
    assert [table for _, table in first.sources] == [Table("shop", "orders")]
    assert (second.text, second.options) == (NOTIFY.text, NOTIFY.config)


def test_other_nodes_declare_nothing_and_a_relation_has_the_alias() -> None:
    view = {"config": {"materialized": "view"}}
    path = manifest(a=view, b={"resource_type": "test"}, c={"name": "ft", "alias": "other"})
    (query,) = read_manifest(path).queries
    assert (query.name, query.relation.name) == ("ft", "other")
    with pytest.raises(SettingError, match="has no compiled query of ft_service_stats") as caught:
        read_manifest(manifest(a={"compiled_code": ""}))
    assert "`dbt compile`" in caught.value.remedy


def test_names_that_a_table_or_an_index_cannot_have_are_said_together() -> None:
    names = {"a": "f" * 49, "c": "c", "d": "uix_c_dimensions", "e": "uix_c_dimensions"}
    nodes = {name: {"name": name, "alias": alias} for name, alias in names.items()}
    nodes["e"]["schema"] = "elsewhere"
    # As dbt names two versions of a model.
    for version in ("f_v1", "f_v2"):
        nodes[version] = {"name": "f", "alias": version, "original_file_path": f"{version}.sql"}
    with pytest.raises(SettingError) as caught:
        read_manifest(manifest(**nodes))
    said = [line for line in caught.value.sentence.splitlines() if not line.startswith("Try: ")]
    assert said == [
        f"The model a would make uix_{'f' * 49}_dimensions, and a name has at most 63 bytes",
        "Error: The models c and d would both make analytics.uix_c_dimensions, as a table or an "
        "index",
        "Error: Two models are named f, f_v1.sql and f_v2.sql: slots and commands know a model by "
        "its name",
    ]


def test_a_file_that_is_no_manifest_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for text in (None, "", "[]", "{}", "{"):
        if text is not None:
            path.write_text(text)
        with pytest.raises(SettingError, match="is not a manifest of dbt"):
            read_manifest(path)


def test_the_project_is_the_named_one_or_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match="There is no dbt project here") as caught:
        find_project({})
    assert "`loader init live --query " in caught.value.remedy
    (tmp_path / "dbt_project.yml").write_text("name: mine")
    assert find_project({}) == tmp_path
    monkeypatch.chdir(ROOT)
    assert find_project({}) == ROOT
    assert find_project({"DBT_PROJECT_DIR": str(ROOT)}) == ROOT
    with pytest.raises(SettingError, match="DBT_PROJECT_DIR is"):
        find_project({"DBT_PROJECT_DIR": str(tmp_path / "nowhere")})
