"""What runs by spark-submit: seeds amid writers, kills and errors, and what is printed."""

from __future__ import annotations

import re

import pytest
from waltally_jobs.common import submitted
from waltally_jobs.common.progress import print_lines, print_status

from testkit.commands import wait_until
from testkit.hostile import FORGED, SECRET
from tests.spark.support import Source, kill, meanwhile
from waltally.errors import SettingError
from waltally.escapes import escaped

NOTICES = (
    r"waiting for (writers|commits to end), (now .+|none of which is left now)"
    r"|reading public\.notification_history, .*: \d+%"
    r" of about [\d,]+ rows, [\d,]+ rows/s(, about .+ left)?"
)
"""What a seed says of itself where something takes longer than ten seconds."""


def test_a_seed_amid_writers_plus_the_stream_from_its_position_is_a_recount(source: Source) -> None:
    source.fill(rows=5000)
    with source.writing(3):
        code, out, err = source.submit("--json", "--partitions", "7")
    assert code == 0, err
    source.must_end_as_a_recount()
    # Nothing of Java's, Spark's or Python's is printed.
    assert len(out.splitlines()) == 1
    lines = [line for line in err.splitlines() if not re.fullmatch(NOTICES, line)]
    assert len(lines) == 2, err
    counting, building = lines
    assert re.fullmatch(
        r"counting public\.notification_history, .* at [0-9A-F]+/[0-9A-F]+", counting
    )
    assert building == "building the models on their new baselines"


@pytest.mark.slow
def test_a_seed_killed_amid_the_swap_leaves_the_previous_one(source: Source) -> None:
    source.fill()
    source.previous_seed()
    with source.session() as other, other.transaction():
        other.ask("lock table cdc.baseline in exclusive mode")
        killed = source.start("--forget-purged")
        # The counts are swapped in the open transaction, the seed's own row is not.
        wait_until(lambda: source.waiting() == 1 or killed.poll() is not None)
        kill(killed)
    sessions = "select pid from pg_stat_activity where application_name = 'waltally seed'"
    wait_until(lambda: not source.execute(sessions))
    assert source.has_previous_seed()


def test_the_seed_fails_when_the_snapshot_s_session_is_terminated(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = "select active_pid from pg_replication_slots where slot_name ~ '^waltally_seed_'"
    source.fill()
    source.previous_seed()

    def terminate() -> None:
        assert source.value(f"select pg_terminate_backend(({holder}), 10000)")

    meanwhile(monkeypatch, "evaluation.places.parts_to_move", before=terminate)
    code, _, err = source.seed("--forget-purged")
    assert code == 29, err
    assert "a task failed: " in err
    assert "Traceback" not in err and "\tat " not in err
    assert source.has_previous_seed()


def test_what_came_from_data_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Each job prints by these, its JSON too."""
    print_lines([FORGED])
    print_status(FORGED)
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert escaped(line) == line and err == out


@pytest.mark.slow
def test_an_error_of_spark_is_one_sentence(source: Source) -> None:
    source.fill_many()
    code, out, err = source.submit(conf={"spark.driver.maxResultSize": "1"})
    assert (code, out) == (29, ""), err
    *_, failed, remedy, intact = err.splitlines()
    assert failed.startswith("Error: Spark failed: ")
    assert remedy == "Try: run the seed again"
    assert intact == "The previous seed, if any, is intact."


def test_a_password_in_a_property_is_refused() -> None:
    dsn = f"postgresql://keeper:{SECRET}@db/notify"
    for name, value in (
        ("spark.executorEnv.PGPASSWORD", SECRET),
        ("spark.yarn.appMasterEnv.PGPASSWORD", SECRET),
        ("spark.kubernetes.driverEnv.LOADER_SOURCE_DSN", dsn),
        ("spark.executorEnv.LOADER_TARGET_DSN", f"host=db password={SECRET}"),
    ):
        with pytest.raises(SettingError, match=name) as refused:
            submitted.refuse_passwords([("spark.app.name", "x"), (name, value)])
        assert SECRET not in refused.value.sentence
    without = {
        "spark.executorEnv.PGPASSFILE": "/etc/waltally/passwords",
        "spark.yarn.appMasterEnv.LOADER_SOURCE_DSN": "host=db user=waltally_spark",
        "spark.kubernetes.driver.secretKeyRef.PGPASSWORD": "waltally:password",
    }
    submitted.refuse_passwords(without.items())
