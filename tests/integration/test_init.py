"""How `loader init` adds a model to a project, and what it refuses.

tests/acceptance/test_readme.py leads from a query to a live model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.databases import Database

LINKS = {".waltally", "spark", "dbt_packages"}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not LINKS & set(path.relative_to(folder).parts)
    }


def test_a_model_is_added_and_no_file_that_is_there_changes(
    source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute(
        "create table orders (id bigint primary key, channel text);"
        "create table payments (id bigint primary key, is_open boolean);"
        "insert into orders select n, n % 3 from generate_series(1, 200) as n;"
        "insert into payments select n, n % 2 = 0 from generate_series(1, 200) as n; analyze"
    )
    for table, key in (("orders", "channel"), ("payments", "is_open")):
        query = f"select {key}, count(*) from {table} group by 1"
        (tmp_path / f"by_{key}.sql").write_text(query)
    orders, payments = (str(tmp_path / f"by_{key}.sql") for key in ("channel", "is_open"))
    project = tmp_path / "models"
    project.mkdir()
    (project / "packages.yml").write_text("packages: []\n")
    words = "has files already, and is no project that"
    source.refused_with(2, words, "init", str(project), "--query", orders)
    assert [path.name for path in project.iterdir()] == ["packages.yml"]
    (project / "packages.yml").unlink()
    source.must("init", str(project), "--query", orders)
    before = contents(project)
    monkeypatch.chdir(project)
    said = source.must("init", ".", "--query", payments)
    assert "  cd " not in said
    assert "spark-submit spark/seed.py --model " in said
    after = contents(project)
    sources = "models/sources.yml"
    assert {name: after[name] for name in before} == {**before, sources: after[sources]}
    assert after[sources] == f"{before[sources]}    - name: payments\n"
    source.dbt("parse", DBT_PROJECT_DIR=str(project), DBT_PROFILES_DIR=str(project))
