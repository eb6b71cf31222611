"""LOADER_TABLES is what setup registered, for every command, or the command is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import LOADER, Database, run
from tests.support.spark_jobs import run_job
from waltally.errors import SettingError

PAIR = "public.notifications,public.notification_history"
SWAPPED = "public.notification_history,public.notifications"
WRONG = {
    "other order": SWAPPED,
    "a table that does not exist": "public.notifications,public.missing",
    "one table": "public.notifications",
    "a further table": f"{PAIR},public.unrelated",
}


def exported(said: str) -> dict[str, str]:
    """The variable that the remedy sets, as a shell would."""
    remedy = said.split("Try: ")[1].splitlines()[0].split(";")[0]
    done = run(["bash", "-c", f'{remedy}; printf %s "$LOADER_TABLES"'])
    return {"LOADER_TABLES": done.stdout}


@pytest.mark.parametrize("tables", WRONG.values(), ids=WRONG)
def test_run_and_status_refuse_other_tables(source: Database, tables: str) -> None:
    source.must("setup")
    source.insert(3)
    done = source.loader("run", "--once", LOADER_TABLES=tables)
    assert done.returncode == 2, done.stderr
    assert tables in done.stderr and PAIR in done.stderr
    body = json.loads(source.loader("status", "--json", LOADER_TABLES=tables).stdout)
    assert 2 in [problem["code"] for problem in body["findings"]]
    assert source.staged() == 0
    source.must("run", "--once", **exported(done.stderr))
    assert source.staged() == 3


@pytest.mark.parametrize("job", ["seed.py", "audit.py"])
def test_spark_refuses_other_tables(source: Database, job: str) -> None:
    source.must("setup")
    with pytest.raises(SettingError, match=f"`loader setup` registered {PAIR}"):
        run_job(f"spark-submit spark/{job}", source.environment(LOADER_TABLES=SWAPPED))


def test_names_that_need_quotes_come_back_as_they_were(source: Database) -> None:
    source.execute(
        'create schema "Odd, one"; alter table notifications set schema "Odd, one";'
        """alter table "Odd, one".notifications rename to "it's $HOME.";"""
    )
    tables = """"Odd, one"."it's $HOME.",public.notification_history"""
    source.must("setup", LOADER_TABLES=tables)
    said = source.loader("run", "--once").stderr
    assert exported(said) == {"LOADER_TABLES": tables}
    source.must("run", "--once", LOADER_TABLES=tables)


def test_setup_keeps_the_counted_pair_and_changes_what_is_only_logged(source: Database) -> None:
    source.must("setup")
    three = f"{PAIR},public.unrelated"
    said = source.must("setup", LOADER_TABLES=three)
    assert "public.unrelated is logged and not counted" in said
    source.execute("insert into unrelated (note) values ('x')")
    source.must("run", "--once", LOADER_TABLES=three)
    assert source.staged() == 1
    assert source.must("setup", LOADER_TABLES=three) == "Everything is set up already.\n"
    assert f"registered {PAIR};" in source.must("setup")
    source.must("run", "--once")
    for arguments in (("setup",), ("setup", "--check")):
        done = source.loader(*arguments, LOADER_TABLES=SWAPPED)
        assert done.returncode == 2, done.stderr
        assert "--renew" in done.stderr
    source.must("setup", "--renew", LOADER_TABLES=SWAPPED)
    source.must("run", "--once", LOADER_TABLES=SWAPPED)
    assert source.loader("run", "--once").returncode == 2


def test_a_first_setup_says_what_is_only_logged(source: Database) -> None:
    said = source.must("setup", LOADER_TABLES=f"{PAIR},public.unrelated")
    assert "public.unrelated is logged and not counted" in said


def test_run_refuses_a_table_that_is_gone_and_confirms_nothing(source: Database) -> None:
    three = {"LOADER_TABLES": f"{PAIR},public.unrelated"}
    source.must("setup", **three)
    source.insert(3)
    source.execute("alter table notifications rename to away")
    done = source.loader("run", "--once", **three)
    assert done.returncode == 17
    assert "public.notifications does not exist" in done.stderr
    assert source.staged() == 0
    source.execute("alter table away rename to notifications")
    source.must("run", "--once", **three)
    assert source.staged() == 3


def test_the_remedy_for_a_logged_table_that_was_dropped_goes_on_without_it(
    source: Database,
) -> None:
    three = {"LOADER_TABLES": f"{PAIR},public.unrelated"}
    source.must("setup", **three)
    source.execute("drop table unrelated")
    done = source.loader("run", "--once", **three)
    assert done.returncode == 17
    remedy = done.stderr.split("Try: ")[1].strip().replace("loader run", "loader run --once")
    path = f"{Path(LOADER).parent}:/usr/bin:/bin"
    done = run(["bash", "-ec", remedy], source.environment(PATH=path, **three))
    assert done.returncode == 0, done.stderr
