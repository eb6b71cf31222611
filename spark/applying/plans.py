"""What there is to do for the facts that Spark applies, as the database decides it."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.connections import TargetSession
from common.settings import DEFAULT_TIMEOUT
from warehouse import fact_state
from warehouse.fact_state import FactState

from waltally import lsn
from waltally.errors import SettingError
from waltally.facts import Fact
from waltally.settings import check_names

MAX_CHANGES = 2_000_000


@dataclass(frozen=True)
class ApplySettings:
    """What the job needs to know; `target` may hold a password. Raises SettingError.

    `facts` are the names of facts, empty for all. `interval` is how many seconds it rests where
    there is nothing to do, None to end once everything that was staged at the start is applied. A
    batch has about `max_changes` changes, and whole transactions. `timeout` is in seconds.
    """

    target: str = field(repr=False)
    slot: str
    schema: str
    facts: tuple[str, ...] = ()
    interval: float | None = None
    max_changes: int = MAX_CHANGES
    timeout: float = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)


@dataclass(frozen=True)
class Plan:
    """The next step of a fact: the changes from `from_lsn` on, for the rows on this baseline.

    With `is_ready` there is a step and it need not wait for its next try; with `is_locked` it
    failed because somebody had locked it.
    """

    fact: Fact
    state: FactState
    from_lsn: int
    position: int
    baseline_id: str | None
    is_rebuild: bool
    is_ready: bool
    is_locked: bool

    def is_due(self, end: int) -> bool:
        """Return whether it can be brought nearer to a position that is staged."""
        return self.is_ready and (self.is_rebuild or self.from_lsn < end)


def read(target: TargetSession, settings: ApplySettings) -> list[Plan]:
    """Return the plans of the facts that Spark applies, in the order of their names.

    Raises SettingError where there is none, or where --fact names another one.
    """
    facts = {fact.name: fact for fact in target.registered_facts()}
    rows = target.ask(
        "select fact_name, coalesce(from_lsn, '0/0')::text, position_lsn::text, baseline_id::text,"
        " step is not distinct from 'rebuild',"
        " step is not null and coalesce(retry_at <= clock_timestamp(), true),"
        " coalesce(starts_with(error, 'it could not be locked'), false),"
        f" {fact_state.COLUMNS} from {target.table('plan_models')}(%s)"
        " where engine = 'spark' order by model_name",
        (target.slot,),
    )
    found = [
        Plan(
            facts[name],
            fact_state.of(facts[name], state),
            lsn.parse(str(begin)),
            lsn.parse(str(position)),
            baseline,
            is_rebuild,
            is_ready,
            is_locked,
        )
        for name, begin, position, baseline, is_rebuild, is_ready, is_locked, *state in rows
        if name in facts
    ]
    if not found:
        raise SettingError(
            f"no fact of the slot {target.slot} says engine='spark'",
            "declare one so and run `dbt build`; `loader run --build` applies the others",
        )
    unknown = set(settings.facts) - {each.fact.name for each in found}
    if unknown:
        raise SettingError(
            f"--fact names {', '.join(sorted(unknown))}, and the facts that say engine='spark' are"
            f" {', '.join(each.fact.name for each in found)}",
            "name one of these",
        )
    return [each for each in found if not settings.facts or each.fact.name in settings.facts]
