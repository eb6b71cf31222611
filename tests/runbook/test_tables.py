"""The application changes its tables while it writes; counts that lack something are mended."""

from __future__ import annotations

import re

import pytest

from testkit.commands import ROOT
from testkit.pipeline import Pipeline
from tests.runbook.conftest import Operating
from tests.runbook.procedure import Operator

TABLES = ("notifications", "notification_history")


def identities(operator: Operator) -> set[str]:
    found = operator.pipeline.source.execute(
        "select relreplident from pg_class where relname = any(%s)", list(TABLES)
    )
    return {kind for (kind,) in found}


def rejected(pipeline: Pipeline) -> int:
    return int(pipeline.target.value("select count(*) from analytics.rejected_changes"))


def migrations() -> list[str]:
    """The statements of the page's section."""
    section = (ROOT / "docs" / "source.md").read_text().partition("### As migrations")[2]
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [statement for statement in block[1].split(";\n") if statement.strip()]


def test_the_replica_identity_becomes_an_index_and_full_again(
    pipeline: Pipeline, operating: Operating
) -> None:
    operator = operating(pipeline, "covering")
    operator.start()
    operator.write()
    for table in TABLES:
        for statement in migrations():  # of docs/source.md, which the runbook points to
            pipeline.source.execute(statement.replace("notifications", table))
        operator.write()
    assert identities(operator) == {"i"}
    pipeline.must("setup", "--check")
    for table in TABLES:
        operator.carry_out("Change the replica identity online", table=table)
        operator.write()
    assert identities(operator) == {"f"}
    pipeline.must("setup", "--check")
    operator.ends_exact()
    assert rejected(pipeline) == 0


@pytest.mark.slow
def test_a_column_a_status_and_a_type_are_added(pipeline: Pipeline, operating: Operating) -> None:
    operator = operating(pipeline, "full")
    operator.start()
    operator.write()
    operator.carry_out("Add a column")
    operator.write()
    operator.carry_out("Add a status or a type")
    operator.write()
    operator.pause()  # it would move these rows on
    pipeline.source.execute(
        'insert into notifications ("to", service_id, template_id, notification_type, '
        "notification_status) select 'someone', service_id, id, 'push', 'read-aloud' from templates"
    )
    operator.ends_exact()
    with_it = "select count(*) from cdc.change_log where payload like '%%\"postage\"%%'"
    assert pipeline.target.value(with_it) > 0
    assert rejected(pipeline) == 0
    groups = (
        "select count(*) from analytics.ft_service_stats "
        "where notification_type = 'push' and notification_status = 'read-aloud' and count = 1"
    )
    assert pipeline.target.value(groups) == 3
