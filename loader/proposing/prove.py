"""Asks the query and what reads the models, in one snapshot, whether they give the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import PERCENT, Plan
from waltally.errors import SettingError
from waltally.tables import literal

_DIGITS = {"real": 3, "double precision": 11}
"""How many digits after the first are compared of a float, whose sum has no order."""
_MOST_SHOWN = 1000
_LOCALE = """coalesce((
    select min(collcollate) from pg_collation
    where collprovider = 'c' and collcollate !~ '^(C|POSIX)'
    and collencoding in (-1, pg_char_to_encoding(getdatabaseencoding()))
), 'C')"""
_READERS: tuple[dict[str, str], ...] = (
    {},
    *(
        {"TimeZone": f"'{zone}'"}
        for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York")
    ),
    {
        "DateStyle": "'SQL, DMY'",
        "IntervalStyle": "'sql_standard'",
        "lc_time": _LOCALE,
        "xmloption": "'document'",
        "extra_float_digits": "'-5'",
        "bytea_output": "'escape'",
    },
)
"""Settings of the query's own session, and of others that read the view; they add up."""
_TIMES = (
    "select 0, 3, extract(epoch from ended.at - began.at)::text from began, ended",
    "select 0, 4, extract(epoch from ready_1.at - ready_0.at)::text from ready_0, ready_1",
)


@dataclass(frozen=True)
class Proof:
    """What the comparison gave."""

    rows: int
    """How many rows both have."""
    missing: list[str]
    surplus: list[str]
    sampled: str
    """The table of which only some blocks were read; empty for none."""
    settings: str
    """Those in which the view's reader differs from the query's session; empty for none."""
    query_seconds: float
    view_seconds: float

    @property
    def is_empty(self) -> bool:
        """Whether neither query nor view has a row."""
        return not (self.rows or self.missing or self.surplus)

    @property
    def line(self) -> str:
        """The result as one line."""
        part = f" ({PERCENT} % of {self.sampled})" if self.sampled else " (all rows)"
        return (
            f"same rows: {self.rows:,}, missing {len(self.missing):,},"
            f" surplus {len(self.surplus):,}{part}"
        )


def prove(plan: Plan, original: str, reads: pb.SelectStmt, is_sample: bool) -> Iterator[Proof]:
    """Compare the query with what reads the models: on a sample, then on all rows.

    `is_sample`: all rows are compared only where the sample gives none. Raises LoaderError.
    """
    bare = tree.parse(original)[0]
    has_limit = bare.HasField("limit_count") or bare.HasField("limit_offset")
    texts = (
        [_without_limit(one) for one in (bare, reads)]
        if has_limit
        else [original, tree.statement(reads)]
    )
    types, others = (plan.columns(text) for text in texts)
    if [type_ for _, type_ in types] != [type_ for _, type_ in others]:
        raise SettingError(f"The columns would be {others} in place of {types}", "cast them")
    names = [name for name, _ in types]
    if len({*names}) == len(names) and names != [name for name, _ in others]:
        raise SettingError(f"The columns would be {others} in place of {types}", "name them by AS")
    sample = plan.sample(*texts)
    is_empty = True
    for proof in _compare(sample, texts, [type_ for _, type_ in types]):
        is_empty &= proof.is_empty
        yield proof
    if sample.sampled and (not is_sample or is_empty):
        yield from _compare(plan, texts, [type_ for _, type_ in types])


def _compare(plan: Plan, texts: list[str], types: list[str]) -> Iterator[Proof]:
    """Yield a proof for the session of the query, and one for each of the readers.

    One statement has them all, so that query and models are evaluated once. It changes settings
    on its way: each CTE with rows of the view first has what comes before it evaluated.
    """
    names = [f"c{n}" for n in range(len(types))]
    shown = ", ".join(_compared(name, type_) for name, type_ in zip(names, types, strict=True))
    query, reads = map(plan.over_tables, texts)
    columns = ", ".join(names)
    # Each is evaluated when the next one asks how many rows it has.
    steps = [
        _clock("began", [plan.source(plan.sampled)] if plan.sampled else []),
        f"asked ({columns}) as materialized (select {shown} from ({query}) as q ({columns})"
        " where (select count(*) from began) > 0)",
        _clock("ended", ["asked"]),
        _clock("ready_0", ["ended", *plan.needed(*texts)]),
    ]
    ctes = [*plan.ctes(*texts), *steps]
    asked = [*_TIMES, "select 0, 0, count(*)::text from asked"]
    alone = (
        f"(select {{}}, {{}}, x::text from (select * from {{}} except all select * from {{}}) as x"
        f" limit {_MOST_SHOWN})"
    )
    for n, settings in enumerate(_READERS):
        if n:
            changed = ", ".join(f"set_config({literal(k)}, {v}, true)" for k, v in settings.items())
            ctes.append(_clock(f"ready_{n}", [f"kept_{n - 1}"], f"{changed}, "))
        ctes.append(
            f"kept_{n} ({columns}) as materialized (select {shown} from ({reads}) as q ({columns})"
            f" where (select count(*) from ready_{n}) > 0)"
        )
        asked.append(alone.format(n, 1, "asked", f"kept_{n}"))
        asked.append(alone.format(n, 2, f"kept_{n}", "asked"))
    with plan.catalog.connection.transaction():
        # A CTE has neither index nor statistics: a nested loop may read it once a row.
        plan.catalog.connection.ask("set local enable_nestloop to off")
        rows = plan.catalog.connection.ask(f"with {', '.join(ctes)} {' union all '.join(asked)}")
    (count,) = (int(value) for _, side, value in rows if side == 0)
    seconds = [float(value) for _, side, value in rows if side in (3, 4)]
    for n, settings in enumerate(_READERS):
        missing, surplus = (
            [value for reader, own, value in rows if (reader, own) == (n, side)] for side in (1, 2)
        )
        sampled = str(plan.sampled.table) if plan.sampled else ""
        others = ", ".join(settings)
        yield Proof(count - len(missing), missing, surplus, sampled, others, *seconds)


def _clock(name: str, after: list[str], more: str = "") -> str:
    """Return a CTE with the time at which all of these CTEs were evaluated."""
    counts = " + ".join(["0", *(f"(select count(*) from {one})" for one in after)])
    before = f"from (select {counts} as n offset 0) as b where n >= 0"
    return f"{name} as materialized (select {more}clock_timestamp() as at {before})"


def _compared(name: str, type_: str) -> str:
    """Return a column as it is compared."""
    if type_ in _DIGITS:
        # 0 and -0 are equal.
        digits = f"to_char({name}, '9.{'9' * _DIGITS[type_]}EEEE')"
        return f"case when {name} = 0 then '0' else {digits} end"
    if type_ == "point":
        return f"array[({name})[0], ({name})[1]]"
    if type_ in ("json", "xml") or type_.startswith("json"):
        return f"{name}::text"
    return name


def _without_limit(select: pb.SelectStmt) -> str:
    other = tree.copied(select)
    tree.clear_limit(other)
    return tree.statement(other)


def require_same(plan: Plan, name: str, reads: pb.SelectStmt, proof: Proof) -> None:
    """Raise SettingError where the rows differ."""
    if not proof.missing and not proof.surplus:
        return
    rows = [("the query alone has", proof.missing), ("the view alone has", proof.surplus)]
    difference = "; ".join(f"{who} {', '.join(some[:3])}" for who, some in rows if some)
    if proof.settings:
        raise SettingError(
            f"{name}: the view would give other rows to a session with another {proof.settings}."
            f" {difference}",
            "say the zone of dates by --timezone, and write what has a text by to_char() or"
            " extract(), such as to_char(max(at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')",
        )
    view = plan.render(
        tree.statement(reads), lambda table: str(table.table), lambda model: model.name
    )
    raise SettingError(
        f"{name}: {proof.line}. {difference}",
        f"report it with the query; nothing was written. The view would be: {view}",
    )
