"""The loader executes what dbt has executed, and goes back to dbt wherever that could be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from loader.build.models import Models, Run
from loader.build.planned_models import PlannedModels
from tests.support.pipeline import Pipeline
from tests.support.project import host_project
from waltally.errors import BuildFailed

FACT = "model.waltally.ft_service_stats"
NOTES = """
{{ config(post_hook=%s) }}
{{ waltally.fact(
    tables={'rows': 'public.unrelated'},
    dimensions={'note': 'text'},
    measures={'row_count': {'count': 'rows'}},
) }}
"""

DESCRIBED = """
version: 2
models:
  - name: ft_notes
    description: Notes, 'counted'
    config:
      grants: {select: [pg_monitor]}
      persist_docs: {relation: true, columns: true}
    columns:
      - name: note
        description: The note.
"""


class Planned:
    """A pipeline whose models are applied by plans, and what dbt had to run each time."""

    def __init__(self, pipeline: Pipeline, models: Models, patch: pytest.MonkeyPatch) -> None:
        self.pipeline = pipeline
        self.planned = PlannedModels(models)
        self._runs: list[set[str] | None] = []
        usual = Models.run

        def run(self_: Models, names: Iterable[str] = ()) -> Run:
            self._runs.append(set(names) or None)
            return usual(self_, names)

        patch.setattr(Models, "run", run)

    def apply(self, staging: object = (1, 1)) -> list[set[str] | None]:
        """Apply what is staged; return the runs of dbt, each with its models, None for all."""
        self._runs.clear()
        self.planned.apply(staging)
        return list(self._runs)

    def batch(self) -> list[set[str] | None]:
        """Insert, stage and apply; fail where the fact is not exact then."""
        self.pipeline.source.insert(7)
        self.pipeline.stage()
        runs = self.apply()
        assert self.pipeline.fact() == self.pipeline.recount()
        return runs

    def learn(self) -> None:
        """Apply until dbt has nothing to run."""
        for _ in range(3):
            self.batch()
        assert self.batch() == []


def notes_project(
    pipeline: Pipeline, folder: Path, hook: str = "[]", described: str = "version: 2"
) -> Path:
    """Set up a project whose one fact counts the notes of `unrelated`; return where it is."""
    pipeline.source.execute("alter table unrelated replica identity full")
    project = host_project(folder, {"ft_notes": NOTES % hook})
    (project / "models" / "ft_notes.yml").write_text(described)
    pipeline.use_project(project)
    pipeline.must("setup")
    return project


@pytest.fixture
def planned(
    pipeline: Pipeline, models: Models, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Planned]:
    pipeline.begin()
    made = Planned(pipeline, models, monkeypatch)
    with closing(made.planned), pipeline.dbt_environment():
        yield made


def test_dbt_runs_twice_and_then_its_statements_are_known(planned: Planned) -> None:
    assert [planned.batch() for _ in range(4)] == [
        [None],
        [{FACT, "model.waltally.rejected_changes"}],
        [],
        [],
    ]


def test_whatever_a_batch_holds_the_plan_applies_it(planned: Planned) -> None:
    planned.learn()
    source = planned.pipeline.source
    source.execute("update notifications set notification_status = 'failed'")
    assert planned.batch() == []
    source.execute("truncate notifications")
    assert planned.batch() == []
    source.execute("delete from notifications")
    assert planned.batch() == []
    planned.pipeline.seed()
    assert planned.batch() == [], "a new baseline is a rebuild, which the same statements do"
    assert planned.pipeline.rejected() == []


def test_a_plan_lists_what_cannot_be_counted(planned: Planned) -> None:
    planned.learn()
    planned.pipeline.source.insert(1)
    planned.pipeline.stage()
    planned.pipeline.target.execute(
        "update cdc.change_log set payload = 'no JSON' where commit_lsn = "
        "(select max(commit_lsn) from cdc.change_log)"
    )
    assert planned.apply() == []
    assert planned.pipeline.rejected() == [("I", "the change names no table")]


@pytest.mark.parametrize(
    "change",
    [
        "alter table analytics.ft_service_stats add column note text",
        "drop table analytics.ft_service_stats",
    ],
    ids=["column", "table"],
)
def test_another_table_is_left_to_dbt(planned: Planned, change: str) -> None:
    planned.learn()
    planned.pipeline.target.execute(change)
    assert planned.batch() == [{FACT}]
    planned.learn()


def test_a_lost_connection_is_left_to_dbt(planned: Planned) -> None:
    planned.learn()
    planned.pipeline.target.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'dbt' and datname = current_database()"
    )
    assert planned.batch() == [{FACT}]
    planned.learn()


def test_another_registration_or_schema_version_parses_anew(planned: Planned) -> None:
    planned.learn()
    assert planned.apply((2, 1)) == [None]
    assert planned.apply((2, 2)) == [None]


def test_a_fact_that_waits_costs_no_run_and_is_built_once_it_may(planned: Planned) -> None:
    planned.learn()
    target, pipeline = planned.pipeline.target, planned.pipeline
    before = pipeline.fact()
    kept = "update cdc.baseline set declaration = {}"
    target.execute(kept.format("'{}'"))
    target.execute("update cdc.model_watermark set declaration = null")
    pipeline.source.insert(1)
    pipeline.stage()
    assert [planned.apply() for _ in range(3)] == [[{FACT}], [{FACT}], []]
    assert pipeline.fact() == before
    target.execute(kept.format("(select declaration from cdc.fact)"))
    assert planned.batch() == [{FACT}]


def test_an_error_is_that_of_dbt(planned: Planned) -> None:
    planned.learn()
    planned.pipeline.target.execute(
        "alter table analytics.ft_service_stats drop constraint uix_ft_service_stats_dimensions"
    )
    for _ in range(3):
        with pytest.raises(BuildFailed, match="Run dbt build --full-refresh"):
            planned.batch()


@pytest.mark.parametrize(
    "hook",
    ["\"comment on table {{ this }} is '{{ invocation_id }}'\"", '"select now()"'],
    ids=["varies", "returns rows"],
)
def test_a_model_that_a_plan_cannot_express_goes_through_dbt(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    notes_project(pipeline, tmp_path, hook)
    made = Planned(pipeline, Models(), monkeypatch)
    with closing(made.planned), pipeline.dbt_environment():
        for count in range(1, 6):
            pipeline.source.execute("insert into unrelated (note) values ('a')")
            pipeline.stage()
            assert made.apply() != []
            counted = pipeline.target.execute("select row_count from analytics.ft_notes")
            assert counted == [(count,)]


def test_grants_and_descriptions_are_written_once(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes_project(pipeline, tmp_path, described=DESCRIBED)
    pipeline.source.execute("insert into unrelated (note) values ('a')")
    pipeline.stage()
    made = Planned(pipeline, Models(), monkeypatch)
    with closing(made.planned), pipeline.dbt_environment():
        assert [bool(made.apply()) for _ in range(4)] == [True, True, True, False]
        look = (
            "select obj_description(table_), col_description(table_, 2), "
            "has_table_privilege('pg_monitor', table_, 'select') "
            "from to_regclass('analytics.ft_notes') as table_"
        )
        kept = [("Notes, 'counted'", "The note.", True)]
        assert pipeline.target.execute(look) == kept
        pipeline.target.execute(
            "revoke select on analytics.ft_notes from pg_monitor; "
            "comment on table analytics.ft_notes is 'other'"
        )
        assert made.apply() != []
        assert pipeline.target.execute(look) == kept


def test_a_changed_project_is_parsed_anew(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = notes_project(pipeline, tmp_path)
    pipeline.source.execute("insert into unrelated (note) values ('a')")
    pipeline.stage()
    made = Planned(pipeline, Models(), monkeypatch)
    with closing(made.planned), pipeline.dbt_environment():
        assert [bool(made.apply()) for _ in range(4)] == [True, True, True, False]
        model = project / "models" / "ft_notes.sql"
        derived = "    derived={'twice': 'row_count * 2'},\n) }}"
        model.write_text(model.read_text().replace("\n) }}", "\n" + derived))
        assert made.apply() == [None]
        assert pipeline.target.execute("select twice from analytics.ft_notes") == [(2,)]
