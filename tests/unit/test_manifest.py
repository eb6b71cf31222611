"""What dbt's manifest says becomes facts, or one sentence for each that it cannot become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loader.setup.dbt_project import declared_facts, find_project, read_manifest
from loader.setup.query import declared_queries
from testkit.commands import ROOT
from testkit.facts import NOTIFY, declare
from testkit.model import manifest_of
from waltally.errors import SettingError
from waltally.tables import Table


def node(name: str, declaration: Any, **more: Any) -> dict[str, Any]:
    (found,) = json.loads(manifest_of({name: declaration}).read_text())["nodes"].values()
    return {**found, **more}


def test_the_facts_are_the_models_that_declare_one() -> None:
    path = manifest_of({"ft_b": NOTIFY, "ft_a": declare("shop.orders", ("shop_id", "uuid"))}, "x.y")
    declared = read_manifest(path)
    assert declared.project == "tests"
    first, second = declared.facts
    assert (first.name, first.relation) == ("ft_a", Table("x.y", "ft_a"))
    assert first.tables[0].table == Table("shop", "orders")
    assert second.declaration == NOTIFY


def test_other_nodes_declare_nothing_and_a_relation_has_the_alias() -> None:
    nodes = {
        "a": node("a", None),
        "b": {"resource_type": "model", "name": "b", "config": {"meta": {}}},
        "c": node("c", NOTIFY, resource_type="test"),
        "d": node("ft", NOTIFY, alias="other"),
    }
    (fact,) = declared_facts(nodes)
    assert (fact.name, fact.relation.name) == ("ft", "other")


def test_two_models_of_one_name_and_another_version_are_said_together() -> None:
    nodes = {
        "one.ft": node("ft", NOTIFY),
        "two.ft": node("ft", NOTIFY, original_file_path="packages/ft.sql"),
        "one.new": node("new", {**NOTIFY, "version": 2}),
    }
    with pytest.raises(SettingError) as caught:
        declared_facts(nodes)
    assert "Two models are named ft: models/ft.sql and packages/ft.sql" in caught.value.sentence
    assert "new declares its fact in version 2, this loader knows 1" in caught.value.sentence


def test_names_that_a_table_or_an_index_cannot_have_are_said_together() -> None:
    long, rows = (
        "f" * 49,
        {**declare("public.a", ("id", "uuid"), key=["id"]), "kind": "current_rows"},
    )
    nodes = {
        "a": node("a", NOTIFY, alias=long),
        "b": node("b", rows, alias="r" * 49),
        "c": node("c", NOTIFY),
        "d": node("d", rows, alias="uix_c_dimensions"),
        "e": node("e", rows, alias="uix_c_dimensions", schema="elsewhere"),
    }
    with pytest.raises(SettingError) as caught:
        declared_facts(nodes)
    said = [line for line in caught.value.sentence.splitlines() if not line.startswith("Try: ")]
    assert said == [
        f"The model a would make uix_{long}_dimensions, and a name has at most 63 bytes",
        "Error: The models c and d would both make analytics.uix_c_dimensions, as a table or an "
        "index",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_file_that_is_no_manifest_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(SettingError, match="is not a manifest of dbt"):
        read_manifest(path)
    with pytest.raises(SettingError, match="is not a manifest of dbt"):
        read_manifest(tmp_path / "missing.json")


def test_the_project_is_the_named_one_or_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match="There is no dbt project here") as caught:
        find_project({})
    assert "`loader init facts --table " in caught.value.remedy
    (tmp_path / "dbt_project.yml").write_text("name: mine")
    assert find_project({}) == tmp_path
    monkeypatch.chdir(ROOT)
    assert find_project({}) == ROOT
    assert find_project({"DBT_PROJECT_DIR": str(ROOT)}) == ROOT
    with pytest.raises(SettingError, match="DBT_PROJECT_DIR is"):
        find_project({"DBT_PROJECT_DIR": str(tmp_path / "nowhere")})


def test_a_query_is_of_the_slots_that_its_sources_name() -> None:
    nodes = {
        f"model.p.{name}": {
            "resource_type": "model",
            "name": name,
            "schema": "analytics",
            "alias": name,
            "relation_name": f'"db"."analytics"."{name}"',
            "config": {"materialized": "waltally"},
            "compiled_code": "select 1",
            "depends_on": {"nodes": inputs},
        }
        for name, inputs in {
            "both": ["source.p.here", "source.p.there"],
            "above": ["model.p.both"],
        }.items()
    }
    sources = {
        f"source.p.{name}": {
            "relation_name": f'"db"."public"."{name}"',
            "schema": "public",
            "identifier": name,
            "config": {"meta": meta},
        }
        for name, meta in {"here": {}, "there": {"slot": "berlin"}}.items()
    }
    above, both = declared_queries(nodes, sources)
    assert (both.slots, above.slots) == ((None, "berlin"), ())
