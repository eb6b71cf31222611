"""Whatever is killed while models are installed or applied, every change is applied once."""

from __future__ import annotations

import pytest

from loader.staging.target_state import Part
from testkit.commands import wait_until
from tests.dbt.staged import MODEL, Warehouse
from tests.dbt.workload import Application
from waltally.errors import LoaderError

AN_INSTALL = "lock table cdc.installed_model in exclusive mode"
AN_APPLY = "lock table cdc.model_watermark in exclusive mode"
"""Where a session stops when another one holds this: the places where it could do half its work."""
RUN = ("run", "--select", MODEL)


@pytest.fixture
def application() -> Application:
    return Application(21)


@pytest.fixture
def built(warehouse: Warehouse, application: Application) -> Warehouse:
    """A model that follows, and changes that are not applied yet."""
    warehouse.append(*(application.transaction() for _ in range(50)))
    warehouse.build(MODEL)
    warehouse.append(*(application.transaction() for _ in range(50)))
    return warehouse


def test_an_install_that_is_killed_is_repeated_exactly(
    built: Warehouse, application: Application
) -> None:
    before = built.counts()
    with built.holding(AN_INSTALL):
        build = built.start_dbt(*RUN, "--full-refresh")
        built.wait_for_waiting(1)
        build.kill()
        build.join()
    # An apply that was sent may still end at the server, as a whole.
    assert built.counts() in (before, application.counts())

    def is_exact() -> bool:
        # The killed session holds the model until its statement ends.
        built.apply()
        return built.counts() == application.counts()

    wait_until(is_exact, "it is exact")


@pytest.mark.parametrize("part", ["front", "behind"])
def test_a_session_that_is_terminated_amid_an_apply_has_applied_nothing(
    built: Warehouse, application: Application, part: Part
) -> None:
    before = built.counts()
    if part == "behind":
        built.ask_refresh(MODEL)
    with pytest.raises(LoaderError), built.waiting(AN_APPLY, built.apply_apart, part):
        built.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )
    assert built.counts() == before
    built.apply()
    assert built.counts() == application.counts()
