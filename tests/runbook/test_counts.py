"""Counts that lack something are mended."""

from __future__ import annotations

from tests.runbook.conftest import Operating
from tests.trouble.scene import Scene


def test_rejected_changes_are_counted_by_a_new_seed(scene: Scene, operating: Operating) -> None:
    operator = operating(scene)
    scene.source.execute("alter table notifications replica identity default")
    scene.source.execute(
        "delete from notifications where id = (select id from notifications order by id limit 1)"
    )
    scene.must("run", "--once")
    scene.build()
    assert len(scene.differences()) == 1
    operator.carry_out("Changes were rejected", 0)
    assert operator.said.count("the replica identity does not carry") == 1
    assert scene.refused("setup", "--check")[0] == 18
    scene.source.execute("alter table notifications replica identity full")
    operator.carry_out("Changes were rejected", 1)
    assert scene.differences() == []
    operator.carry_out("Changes were rejected", 0)
    assert operator.said == ""
    operator.ends_exact()
