"""What the staging tables say of a slot, as records. Pure: no driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.staging.logged_tables import Fingerprint, Followed, Root
from waltally import lsn
from waltally.errors import BuildFailed, LoaderError, NotSetUp
from waltally.holder import Holder
from waltally.models import Model, source_tables
from waltally.tables import Table


@dataclass(frozen=True)
class SlotPosition:
    """A slot's row in slot_position."""

    slot_name: str
    system_identifier: str
    source_database: str
    start_lsn: int
    position_lsn: int
    stored_changes: int = 0
    timeline: int | None = None
    """The timeline of the source's WAL that the position is of; None where it is not known yet."""
    timeline_began_lsn: int | None = None
    """Where that timeline left the former one; None for the first, and where it is not known."""
    baseline_lsn: int | None = None
    """Where the newest baseline of the slot's models was counted; None where there is none."""

    @property
    def safe(self) -> str:
        """What is certain of the log, for the end of an error's sentence."""
        return f"everything before {lsn.show(self.position_lsn)} is stored"


@dataclass(frozen=True)
class Registration:
    """What dbt has installed for a slot, and what its loader follows."""

    models_version: int
    """Another one whenever dbt has installed something else that is to be followed."""
    models: tuple[Model, ...]
    followed: Followed
    leaves: Mapping[Table, Root] = field(default_factory=dict)
    """The partitioned ones of the tables, as a session last saw them."""
    fingerprints: Mapping[Table, Fingerprint] = field(default_factory=dict)
    """What the tables were, as a session last saw them."""
    read_by: tuple[Model, ...] = ()
    """All that is applied: the models, their former queries that still go on, and copies."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table to be followed, each once."""
        return source_tables(self.models)


@dataclass(frozen=True)
class ModelState:
    """A row of the view model_state: what a model does, and what keeps it from following."""

    name: str
    """As commands take it; that of a copy is its relation."""
    relation: str
    """schema.name, where its rows are."""
    state: str
    """`follows`, `waits` or `failed`."""
    reason: str | None
    remedy: str | None
    applied_lsn: int | None
    engine: str
    is_behind: bool = False
    """Whether another call of cdc.apply has more to do; not of the view."""
    is_finding: bool = True
    """Whether somebody has to do something where it waits; not of the view."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> ModelState:
        """Return the state of which a query selected MODEL_STATE, and the rest where it has it."""
        name, relation, state, reason, remedy, applied, engine, *rest = row
        position = applied and lsn.parse(applied)
        return cls(name, relation, state, reason, remedy, position, engine, *rest)

    def __str__(self) -> str:
        return say_state(self.name, self.state, self.reason)

    @property
    def error(self) -> LoaderError | None:
        """What keeps it from following; the trouble of a copy is its developer's."""
        if self.state == "follows" or self.name == self.relation:
            return None
        error = BuildFailed if self.state == "failed" else NotSetUp
        return error(str(self), self.remedy or "")


MODEL_STATE = "model_name, relation, state, reason, remedy, applied_lsn::text, engine"


def other_functions(schema: str) -> NotSetUp:
    """Return the error for a schema whose functions another version of waltally made."""
    return NotSetUp(
        f"The functions in schema {schema} are of another version of waltally than this one",
        "run `loader setup`, then `dbt build`",
    )


def say_states(states: Iterable[ModelStatus | ModelState]) -> list[tuple[str, str, str]]:
    """Return subject, clause and remedy, once for all models that need the same."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for model in states:
        alike_key = (model.state, model.reason or "", model.remedy or "")
        alike.setdefault(alike_key, []).append(model.name)
    verbs = {"waits": "wait", "follows": "follow"}
    return [
        (
            "The model" if len(names) == 1 else "The models",
            say_state(
                ", ".join(names),
                state if len(names) == 1 else verbs.get(state, state),
                reason or None,
            ),
            remedy,
        )
        for (state, reason, remedy), names in alike.items()
    ]


def say_state(name: str, state: str, reason: str | None) -> str:
    """Return what model_state says of a model, as a clause: `ft_orders waits: ...`."""
    if reason is None:
        return f"{name} {state}"
    return f"{name} follows, but {reason}" if state == "follows" else f"{name} {state}: {reason}"


def builder(engine: str) -> str:
    """Return what brings a model of this engine to what is staged, as cdc.name_builder says it."""
    if engine == "spark":
        return "`spark-submit spark/apply.py`"
    return "`loader run --build` or a scheduled `dbt build`"


def rejection_remedy(model: str) -> str:
    """Return what to do about changes that a model rejected.

    Only the tables still have what such a change lacks, so a new seed counts it, and no second try.
    """
    return (
        "remove the cause that the reason names (`loader setup --check` prints SQL for tables); "
        f"then `spark-submit spark/seed.py --model {model}`, then `dbt build`"
    )


Reasons = Mapping[str, int]
"""By reason, how many changes or rows could not be counted."""


@dataclass(frozen=True)
class Baseline:
    """The rows that a seed has counted for a model."""

    id: str
    snapshot_lsn: str
    counted_at: str
    age_seconds: float
    rejected_count: int | None = None
    """None where this role may not see it, as the reasons."""
    rejected_reasons: Reasons | None = None


@dataclass(frozen=True)
class ModelStatus:
    """A model at the target, as `loader status --json` has it (docs/monitoring.md)."""

    name: str
    relation: str
    is_registered: bool
    rows: int | None
    state: str
    reason: str | None
    remedy: str | None
    engine: str
    is_finding: bool
    """Whether a person has to do something: the next apply does not."""
    applied_lsn: str | None
    moved_at: str | None
    lag_bytes: int
    lag_seconds: float
    exact_as_of: str | None
    exact_age_seconds: float | None
    rejected_lsn: str | None
    built_on: str | None
    audited_at: str | None
    """When an audit last found it equal to its tables; None since it was built again."""
    audited_age_seconds: float | None
    baseline: Baseline | None
    held_by: Holder | None = None
    """Where it is behind: the session that keeps others from applying; not a loader's."""
    rejected_count: int | None = None
    rejected_reasons: Reasons | None = None
    rejected_remedy: str | None = None
    kind: str | None = None
    """What it is and how it is kept: fact over models, and of which."""
    is_unbuilt: bool = False
    """Whether the dbt project that has installed it has it no more."""

    def __str__(self) -> str:
        return say_state(self.name, self.state, self.reason)


@dataclass(frozen=True)
class StoredState:
    """What the target holds of a slot; times and ages are the target's."""

    record: SlotPosition
    registration: Registration
    models: tuple[ModelStatus, ...]
    moved_at: str
    moved_age: float
    """Seconds since then."""
    newest_commit_at: str | None
    exact_as_of: str | None
    """As of when every model is exact, as cdc.exact_as_of says it."""
    exact_age_seconds: float | None
