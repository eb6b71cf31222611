"""The replay from start to end: a position, the newest baseline before it, the changes between."""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated

import typer

from waltally import lsn
from waltally.errors import SettingError, combine
from waltally.models import Model
from waltally.options import Schema, Slot, Source, Target, parse_lsn
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, SlotSettings
from waltally_jobs.archiving import files
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Baseline, Contents
from waltally_jobs.common import session
from waltally_jobs.common.arrow import Start
from waltally_jobs.common.command import AsJson, Job, Models
from waltally_jobs.common.connections import TargetSession, connect_target
from waltally_jobs.common.errors import ArchiveIncomplete, ReplayDiffers, spark_errors
from waltally_jobs.common.progress import print_lines, print_status
from waltally_jobs.replaying import queries
from waltally_jobs.replaying.result import Replay, ReplayedModel
from waltally_jobs.warehouse.model import applied_lsn, baseline_id


@dataclass(frozen=True)
class ReplaySettings(SlotSettings):
    """Which archive and models, as of when, and what to do with the result. Raises SettingError.

    `models` are names, empty for all. `at` is a WAL position, `at_time` a moment; without both it
    is the archive's end, with `compare` each model's position. `target` and `schema` matter to
    `compare`, and to models that are queries: the target evaluates them.
    """

    path: str
    models: tuple[str, ...] = ()
    at: int | None = None
    at_time: datetime | None = None
    output: str | None = None
    compare: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [self.at is not None, self.at_time is not None, self.compare]
        if sum(given) > 1:
            raise SettingError(
                "--at, --at-time and --compare exclude each other", "give one of them"
            )


def parse_time(text: str | None) -> datetime | None:
    """Return the moment of --at-time, UTC where it names no zone. Raises SettingError."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(
            f"--at-time is {text!r}: not a time of ISO 8601", "give one like 2026-11-21T09:30:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def models_at(contents: Contents, position: int, names: tuple[str, ...]) -> list[str]:
    """Return the names of the models that the archive has then, of these where any are given.

    Raises SettingError for a name that the archive does not have.
    """
    # A baseline may be newer than the changes that were archived with the declaration.
    part = contents.at(position) or contents.slices[0]
    known = {model.name for model in part.models} | {
        each.model.name
        for each in contents.baselines
        if part.from_lsn <= each.snapshot_lsn <= position
    }
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        raise SettingError(
            f"the archive has no declaration of {', '.join(unknown) or 'a model'} at"
            f" {lsn.show(position)}; it has {', '.join(sorted(known)) or 'none'}",
            "run spark/archive.py once the model is registered, or name another one",
        )
    return [name for name in sorted(known) if not names or name in names]


def require_reached(contents: Contents, model: Model, position: int, path: str) -> None:
    """Raise ArchiveIncomplete where the archive ends before the position of the model."""
    if position > contents.to_lsn:
        raise ArchiveIncomplete(
            f"{model.relation} is at {lsn.show(position)}, {position - contents.to_lsn:,} bytes of"
            f" WAL after the archive's end at {lsn.show(contents.to_lsn)}",
            f"`spark-submit spark/archive.py --to {shlex.quote(path)}`, then this again, without a"
            " build in between: under traffic stop `loader run --build`, or the timer of dbt, until"
            " the replay says that it has read the model",
        )


def baseline_before(contents: Contents, name: str, position: int) -> Baseline:
    """Return the newest baseline of the model at or before the position.

    Raises ArchiveIncomplete where it waited for its baseline then.
    """
    fitting = [each for each in contents.baselines_of(name) if each.snapshot_lsn <= position]
    if not fitting:
        raise ArchiveIncomplete(
            f"the archive has no baseline of {name} at or before {lsn.show(position)}",
            "ask for a later position, or archive again after"
            f" `spark-submit spark/seed.py --model {name}`",
        )
    return fitting[-1]


def baseline_of(contents: Contents, model: Model, baseline_id: str | None) -> Baseline:
    """Return the baseline that the model was built on. Raises ArchiveIncomplete.

    Another one may give other numbers: rows purged between two baselines are only in the older one.
    """
    for each in contents.baselines_of(model.name):
        if each.baseline_id == baseline_id:
            return each
    raise ArchiveIncomplete(
        f"{model.relation} stands on the baseline {baseline_id or 'of no seed'}, which is not"
        " archived",
        "archive again; where a newer baseline has replaced it, `dbt build` first",
    )


def position_of(settings: ReplaySettings, archive: Archive) -> int:
    """Return the requested position, by default the archive's end. Raises ArchiveIncomplete."""
    if settings.at is not None:
        return settings.at
    if settings.at_time is not None:
        return position_at(archive, settings.at_time)
    return archive.contents.to_lsn


def position_at(archive: Archive, moment: datetime) -> int:
    """Return the position of the first transaction that committed after the moment.

    Transactions are ordered by their commit records, which is not exactly the order of their commit
    times: one that committed at or before the moment, but whose record comes after that of a later
    one, is not counted. Raises ArchiveIncomplete where no archived transaction is later.
    """
    contents = archive.contents
    day = moment.astimezone(UTC).strftime("date=%Y-%m-%d")
    for part in contents.slices:
        names = [file for file in part.files if file[file.index("date=") :] >= day]
        found = (files.first_after(archive.folder, name, moment) for name in names)
        if positions := [at for at in found if at is not None]:
            return min(positions)
    raise ArchiveIncomplete(
        f"no archived transaction is later than {moment.isoformat()}, so more may come that"
        f" are not; the archive ends at {lsn.show(contents.to_lsn)}",
        "archive again, or give --at a position",
    )


def replay(settings: ReplaySettings, start: Start) -> Replay:
    """Compute the models from the archive alone, and store or compare them. Raises LoaderError."""
    begun = time.monotonic()
    with spark_errors("replay"):
        output = Folder.of(settings.output) if settings.output else None
        if output and output.exists():
            raise SettingError(f"--to {output.uri} exists already", "name a place that is free")
        archive = Archive.open(start, settings.path, settings.slot)
        compute = compared if settings.compare else computed_at
        found = compute(settings, archive, output)
    return Replay(settings.slot, found, time.monotonic() - begun)


def computed_at(
    settings: ReplaySettings, archive: Archive, output: Folder | None
) -> list[ReplayedModel]:
    """Replay the models to the requested position."""
    contents = archive.contents
    position = position_of(settings, archive)
    archive.require(contents.from_lsn, position)
    found = []
    with contextlib.ExitStack() as stack:

        @cache
        def target() -> TargetSession:
            return stack.enter_context(contextlib.closing(connect_target(settings, "replay")))

        for name in models_at(contents, position, settings.models):
            baseline = baseline_before(contents, name, position)
            found.append(
                queries.replayed(target(), archive, position, baseline, output, compares=False)
            )
    return found


def compared(
    settings: ReplaySettings, archive: Archive, output: Folder | None
) -> list[ReplayedModel]:
    """Replay each model to its own position, on its own baseline, and compare the two."""
    found = []
    with contextlib.closing(connect_target(settings, "replay")) as target:
        for model in target.registered_models(settings.models):
            with target.transaction():
                target.ask("set transaction isolation level repeatable read")
                position = applied_lsn(target, model)
                require_reached(archive.contents, model, position, settings.path)
                stands_on = baseline_id(target, model)
                baseline = baseline_of(archive.contents, model, stands_on)
                # Kept now, so that the target does not keep an old snapshot meanwhile.
                queries.keep_present(target, model)
            print_status(f"{model.relation} is read at {lsn.show(position)}; builds may go on")
            found.append(
                queries.replayed(target, archive, position, baseline, output, compares=True)
            )
    return found


app = Job("")


@app.command()
def run(
    path: Annotated[str, typer.Option("--from", help="The folder of the archive.")],
    at: Annotated[str | None, typer.Option(help="A WAL position; else the archive's end.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="A moment, ISO 8601; without a zone it is UTC.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Write each model to a new folder in this one, as Parquet.")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare with the models, at each model's position. The archive must have reached"
            " it: under traffic let no build run between archive and replay.",
        ),
    ] = False,
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    model: Models = None,
    as_json: AsJson = False,
) -> None:
    """Compute the models as of any archived position or time, from the archive alone.

    For instance: spark-submit spark/replay.py --from s3://backups/waltally --to as-of-monday
    --model ft_service_stats --at-time 2026-11-16T00:00:00Z
    """
    settings = ReplaySettings(
        target or source,
        slot,
        schema,
        path,
        tuple(model or ()),
        parse_lsn(at, "--at"),
        parse_time(at_time),
        to,
        compare,
    )
    with contextlib.ExitStack() as stack:
        result = replay(settings, session.on_demand(stack, "replay"))
    print_lines([json.dumps(result.as_json())] if as_json else result.lines())
    if result.differing:
        raise combine(
            [
                ReplayDiffers(
                    f"{each.model.relation} differs from the replay",
                    f"`spark-submit spark/audit.py --model {each.model.name}`: where it differs too"
                    " the model is wrong, else the archive",
                )
                for each in result.differing
            ]
        )
