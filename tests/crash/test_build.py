"""SIGKILL while the loader applies a plan: every change is in the fact once."""

from __future__ import annotations

import signal
import time

from tests.support.pipeline import Pipeline


def test_killed_before_the_commit_of_a_build_it_applies_each_change_once(
    pipeline: Pipeline,
) -> None:
    pipeline.begin()
    builds, amid_a_batch = 0, 0
    while amid_a_batch < 2 and builds < 8:
        builds += 1
        point = f"before-build-commit:{builds}"
        with pipeline.start("--build", WALTALLY_KILL_AT=point) as running:
            # Only a plan reaches the failpoint: dbt executes the first builds.
            while running.process.poll() is None:
                pipeline.source.insert(2)
                pipeline.source.execute("update notifications set notification_status = 'sent'")
                time.sleep(0.05)
        assert running.process.returncode == -signal.SIGKILL, running.said()
        # The build before may have taken the batch of this one, and then nothing was left.
        amid_a_batch += pipeline.fact() != pipeline.recount()
    assert amid_a_batch == 2, "something was left to apply"
    pipeline.must("run", "--once", "--build")
    assert pipeline.fact() == pipeline.recount()
    assert pipeline.rejected() == []
