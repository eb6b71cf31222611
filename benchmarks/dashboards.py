"""What `loader init --query` keeps of the queries of docs/dashboards.md, beside asking them.

python -m benchmarks.dashboards --rows 1000000

The page's own commands make the tables, with so many visits, and say the queries and their flags.
The models are made as plain tables with their unique index, as dbt would, and query and view are
asked three times; the least counts. *Kept* are the models that a view reads, and those below, with
indexes, beside the tables without theirs. *A change* is a new visit, through these models, in a
batch of 500; the table has --change-rows visits.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from random import Random

from benchmarks.measure import ROOT
from benchmarks.queries import BATCH, bytes_of, followed, least, make_model, plain, seconds_of
from benchmarks.report import Table, main
from loader.proposing.propose import propose
from loader.proposing.questions import Options
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.queries.lab import Lab
from tests.queries.models_lab import fill as fill_models
from tests.queries.test_corpus import Case, begin_case
from waltally.settings import Settings
from waltally.tables import quoted

_PAGE = (ROOT / "docs" / "dashboards.md").read_text()
(_MADE,) = re.findall(r"^psql [^\n]*<<'SQL'\n(.*?)^SQL$", _PAGE, re.M | re.S)
_QUERIES = dict(re.findall(r"^cat > (\w+)\.sql <<'SQL'\n(.*?)^SQL$", _PAGE, re.M | re.S))
_COMMANDS = re.findall(r"^loader init live (.*)$", _PAGE, re.M)
_TABLES = re.findall(r"create table (\w+)", _MADE)
_NEW = """
insert into visits
select gen_random_uuid(), clinic_id, patient_id, status, now(), fee, notes
from visits order by md5(id::text || {}) limit {}
"""


def _made(rows: int) -> tuple[str, str]:
    """Return what makes the tables, and what fills them."""
    tables, insert, fill = _MADE.replace(":visits", str(rows)).partition("insert into")
    return tables, insert + fill


def _asked(command: str, written: Mapping[str, str]) -> tuple[dict[str, str], Options]:
    """Return the queries of a command, and what its flags say."""
    words = shlex.split(command)
    given = [*zip(words[::2], words[1::2], strict=True)]
    names = [value.removesuffix(".sql") for flag, value in given if flag == "--query"]
    zone = dict(given).get("--timezone", "")
    return {name: _QUERIES[name] for name in names}, Options(zone, written=dict(written))


def _below(files: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the models that one reads, and those below, in the order in which they are made."""
    found: dict[str, str] = {}
    for one in re.findall(r"ref\('(\w+)'\)", files[name]):
        found |= {**_below(files, one), one: files[one]}
    return found


def _kept(database: Database, rows: int) -> tuple[list[dict[str, object]], list[dict[str, str]]]:
    """Return a row for each query and one for all, and the models of each."""
    for text in _made(rows):
        database.execute(text)
    dsn = database.cluster.dsn(database.name)
    settings = Settings.of(dsn, dsn, "waltally", "cdc")
    tables = sum(bytes_of(database, "pg_table_size", table) for table in _TABLES)
    files: dict[str, str] = {}
    found, models = [], []

    def kept(own: Mapping[str, str]) -> dict[str, object]:
        held = sum(bytes_of(database, "pg_total_relation_size", quoted(one)) for one in own)
        return {"kept, MB": held / 1e6, "of the tables' bytes, %": 100 * held / tables}

    for command in _COMMANDS:
        queries, options = _asked(command, files)
        made = propose(settings, queries, options)
        for model in made.models:
            database.execute(f"drop table if exists {quoted(model)}")
            make_model(database, made, model)
        database.execute("analyze")
        files |= {model: made.files[f"models/{model}.sql"] for model in made.models}
        for name, query in queries.items():
            view = made.files[f"models/{name}.sql"]
            own = _below({**files, name: view}, name)
            times = [1000 * least(database, text) for text in (query, plain(view)[0])]
            found.append({"query": name, "query, ms": times[0], "view, ms": times[1], **kept(own)})
            models.append(own)
    found.append({"query": "all of them", **kept(files)})
    return found, [*models, files]


def _change_cost(lab: Lab, models: dict[str, str], rows: int) -> float:
    """Return the microseconds that a new visit costs in a batch."""
    tables, fill = _made(rows)
    begin_case(lab, Case(tables, "", {}), Random(1))
    below = followed(lab, {f"{name}.sql": text for name, text in models.items()}, _TABLES)
    seconds_of(lab, below, partial(lab.execute, fill))
    fill_models(lab)
    times = [seconds_of(lab, below, partial(lab.execute, _NEW.format(n, BATCH))) for n in range(4)]
    return 1e6 * min(times[1:]) / BATCH


def measure(rows: int, change_rows: int) -> Iterator[Table]:
    """Measure the queries of the page."""
    with (
        Cluster() as cluster,
        empty_database(cluster) as database,
        empty_database(cluster) as other,
        Lab(cluster.dsn(other.name)) as lab,
    ):
        found, models = _kept(database.with_functions(), rows)
        for row, own in zip(found, models, strict=True):
            row["a change, µs"] = _change_cost(lab, own, change_rows)
    yield Table("dashboards", found)


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        rows=(1_000_000, "of visits"),
        change_rows=(20_000, "of it where changes are measured"),
    )
