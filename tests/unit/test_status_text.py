"""What a person reads: the first sentence, remedies, units, and lines that stay lines."""

from __future__ import annotations

import ast
import io
import logging
from dataclasses import fields
from typing import Any

import pytest

from loader.findings.lists import STATUS, findings
from loader.monitoring.status import Report
from loader.monitoring.status_text import render
from loader.monitoring.text_lines import LogFormatter
from loader.source.server import Server
from loader.source.slot import SlotInfo, SlotState
from loader.source.state import State, Thresholds
from loader.staging.records import ModelStatus, Registration, SlotPosition, StoredState
from testkit.hostile import FORGED
from tests.unit.test_checks import SOUND
from waltally.errors import LoaderError, SettingError, combine
from waltally.escapes import escaped
from waltally.holder import Holder

MOMENT = "2026-01-01T00:00:00+00:00"
# One line: a comment that goes on in the next one would be a statement.
SQL = 'alter table "public"."notifications" replica identity full; -- ' + "a word " * 40 + "last"


def model(age: float | None = 0.2, **other: Any) -> ModelStatus:
    values = {
        **dict.fromkeys(field.name for field in fields(ModelStatus)),
        **{"name": "ft_orders", "relation": "analytics.ft_orders", "is_registered": True},
        **{"rows": 1234, "state": "follows", "engine": "database", "is_finding": False},
        **{"applied_lsn": "0/20", "moved_at": MOMENT, "lag_bytes": 0, "lag_seconds": 0.0},
        **{"exact_as_of": None if age is None else MOMENT, "exact_age_seconds": age},
    }
    return ModelStatus(**{**values, **other})


def report(
    *models: ModelStatus,
    pid: int | None = 7,
    age: float | None = 0.2,
    lag: tuple[int, float] = (100, 0.0),
    found: tuple[tuple[str, str], ...] = (),
    is_there: bool = True,
) -> Report:
    """Return what is said of a slot, with more that was found wrong."""
    at, wal_end = 2**30, 2**30 + lag[0]
    record = SlotPosition("s", "1", "db", 0, at, 1)
    slot = SlotState("wal2json", "db", pid, "reserved", at, wal_end - 5000, None)
    models = models or (model(age),)
    ages = [known.exact_age_seconds for known in models if known.exact_age_seconds is not None]
    moment = MOMENT if ages else None
    times = (MOMENT, lag[1], moment, moment, max(ages, default=None))
    state = State(
        "cdc",
        SOUND,
        SlotInfo("s", slot if is_there else None, record, Server("1", "db", wal_end)),
        *((), (), {}, {}, {}),
        stored=StoredState(record, Registration(1, (), {}), models, *times),
        thresholds=Thresholds(300, 2**33),
    )
    given = [LoaderError(message, remedy) for message, remedy in found]
    return Report(state, [*given, *findings(STATUS, state)])


HOLDER = Holder(4711, "psql", "eve", "idle in transaction")
LATE: dict[str, Any] = {"lag_seconds": 40.0, "lag_bytes": 9}
LATER: dict[str, Any] = {"lag_seconds": 400.0, "lag_bytes": 9}
BUILD: dict[str, Any] = {"remedy": "`dbt build`"}
NEXT_APPLY = {"state": "waits", "reason": "it was not built yet", **BUILD}
FAILED = {"state": "failed", "reason": "no", "is_finding": True, **BUILD}
SENTENCES: dict[str, tuple[Report, str, str]] = {
    "fresh": (report(), "healthy, exact as of 0.2 s ago", ""),
    "a quiet source": (report(age=7200), "healthy, exact as of the newest change, 2.0 h ago", ""),
    "nothing to count": (
        report(age=None),
        "healthy, exact: the change log is empty, so nothing is left to count",
        "",
    ),
    "catching up": (
        report(age=480, lag=(310_000_000, 0.1)),
        "healthy, exact as of 8.0 min ago, and 310.0 MB of the source's WAL are still to be read",
        "",
    ),
    "not built yet": (
        report(model(None, **NEXT_APPLY), model(None, name="ft_b", **NEXT_APPLY)),
        "healthy, but ft_orders, ft_b wait: it was not built yet",
        "`dbt build`; where `loader run --build` runs, it does that by itself",
    ),
    "no loader": (
        report(pid=None, age=90),
        "no loader is running: exact as of the newest change, 1.5 min ago",
        "start `loader run --build`",
    ),
    "no loader for long": (
        report(pid=None, lag=(50_000, 400)),
        "not healthy: The loader does not run: nothing was stored for 6.7 min, while the source "
        "went on",
        "start `loader run --build`",
    ),
    "the loader hangs": (
        report(age=45, lag=(50_000, 42)),
        "behind: the loader has stored nothing for 42 s; exact as of the newest change, 45 s ago",
        "see what `loader run` logs",
    ),
    "the builds are late": (
        report(model(41, **LATE)),
        "behind: ft_orders was not built for 40 s, and more is staged; exact as of 41 s ago",
        "see that `loader run --build` or a scheduled `dbt build` runs",
    ),
    "somebody holds the builds up": (
        report(model(41, **LATE, held_by=HOLDER)),
        "behind: ft_orders was not built for 40 s, and more is staged, while the session 4711 "
        "(psql, role eve, idle in transaction) holds the lock of the builds; exact as of 41 s ago",
        "let that session end, or end it on the target: select pg_terminate_backend(4711);",
    ),
    "somebody holds the builds up for long": (
        report(model(410, **LATER, held_by=HOLDER)),
        "not healthy: The builds have stopped: the model ft_orders was not built for 6.7 min, and "
        "more is staged, while the session 4711 (psql, role eve, idle in transaction) holds the "
        "lock of the builds",
        "let that session end, or end it on the target: select pg_terminate_backend(4711);",
    ),
    "not built yet, and nobody does": (
        report(model(None, applied_lsn=None, **NEXT_APPLY), pid=None),
        "no loader is running: nothing is applied yet",
        "start `loader run --build`",
    ),
    "Spark's builds are late": (
        report(model(41, **LATE, engine="spark")),
        "behind: ft_orders was not built for 40 s, and more is staged; exact as of 41 s ago",
        "see that `spark-submit spark/apply.py` runs",
    ),
    "a model that has failed": (
        # Why it is late is a finding already.
        report(model(**LATER, **FAILED)),
        "not healthy: The model ft_orders failed: no",
        "`dbt build`",
    ),
    "a table": (
        report(found=(("No key", SQL), ("B", "c"))),
        "not healthy (2 findings): No key",
        SQL,
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_the_first_sentence_says_how_it_is_and_what_to_do(case: str) -> None:
    found, sentence, remedy = SENTENCES[case]
    lines = render(found)
    assert lines[0] == sentence
    assert lines[1].removeprefix("Try: ").startswith(remedy)
    assert lines[1].startswith("Try: ") == bool(remedy)


def test_a_slot_that_is_gone_is_not_answered_with_starting_the_loader() -> None:
    for is_there, code in ((True, 3), (False, 21)):
        found = report(pid=None, lag=(50_000, 400), is_there=is_there).findings
        assert [finding.exit_code for finding in found] == [code]


HARMFUL = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))),
    "\ud800",
    "\udfff",
]


def test_a_character_that_does_more_than_stand_there_is_shown_as_python_writes_it() -> None:
    for each in HARMFUL:
        shown = escaped(f"a{each}b")
        assert shown.isprintable() and shown.encode(), ascii(each)
        assert shown[0] == "a" and shown[-1] == "b"
        assert ast.literal_eval(f"'{shown}'") == f"a{each}b"
        assert escaped(shown) == shown
    for text in ("", "plain", "Größe 数量 🙂", "a\\nb", "e\u0301", "نص", "\u00a0"):
        assert escaped(text) == text


def test_an_error_has_the_lines_that_it_should_have() -> None:
    error = combine([SettingError(FORGED, f"drop {FORGED}"), SettingError("other")])
    assert error.sentence.split("\n") == [
        escaped(FORGED),
        f"Try: drop {escaped(FORGED)}",
        "Error: other",
    ]
    assert str(error) == FORGED, "a program gets it as it is"
    assert f"Try: {SQL}" in render(report(found=(("A", "b"), ("No key", SQL))))


def test_a_record_of_the_log_has_the_lines_that_its_message_has() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("%s of %d; %.1f\nTry: %s", SettingError(FORGED), 7, 0.5, FORGED)
    logger.warning(FORGED.replace("\n", " "))
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        logger.info("it broke", exc_info=error)
    first, remedy, second, broke, *trace = out.getvalue().splitlines()
    assert first == f"ERROR {escaped(FORGED)} of 7; 0.5"
    assert remedy == f"Try: {escaped(FORGED)}"
    assert second == f"WARNING {escaped(FORGED.replace(chr(10), ' '))}"
    assert broke == "INFO it broke"
    assert trace and all(line.startswith("  ") and escaped(line) == line for line in trace)


def test_ten_models_are_one_screen() -> None:
    kind = "fact over models: order_lines and orders, found by order_id"
    models = [model(name=f"customers_with_children{n}", kind=kind) for n in range(10)]
    lines = render(report(*models), positions=False)
    assert len(lines) < 24 and max(map(len, lines)) < 80
