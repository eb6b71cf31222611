"""`loader init`: write a dbt project with the models of a query."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from loader import shipped_files
from loader.monitoring import text_lines
from waltally.escapes import escaped
from waltally.options import with_settings
from waltally.settings import Settings
from waltally.tables import literal

if TYPE_CHECKING:
    from loader.proposing.questions import Options


@with_settings()
def init_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new folder, or a project that `loader init` made."),
    ],
    settings: Settings,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            show_default="none",
            help="A file with the query as the application sends it, or - for standard input;"
            " repeatable: the queries then share models.",
        ),
    ] = None,
    timezone: Annotated[
        str,
        typer.Option(
            metavar="ZONE",
            show_default="asked where a query needs it",
            help="Where a day begins: Europe/Berlin.",
        ),
    ] = "",
    grain: Annotated[
        Literal["day", "hour", "minute", "second"] | None,
        typer.Option(
            metavar="GRAIN",
            show_default="the largest at which the query's bounds begin",
            help="How a query's ranges of time are kept: day, hour, minute or second.",
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            show_default="those with a comment: 1 /* :store */",
            help="The application fills in the value that the query compares this column with;"
            " repeatable.",
        ),
    ] = None,
    ignore_deletes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            show_default="none",
            help="Rows deleted from this table stay counted, as after a purge; repeatable.",
        ),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            show_default="none",
            help="The value of $1, :name or %(name)s in the proof; repeatable.",
        ),
    ] = None,
    prove: Annotated[
        Literal["sample", "all", "none"],
        typer.Option(
            help="Compare query and view on a sample of the largest table's blocks, on all rows,"
            " or not.",
        ),
    ] = "sample",
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Write also what costs more than it gives."),
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Give up a comparison after this time: a number with s, m, h, d or w.",
        ),
    ] = "5m",
) -> None:
    """Write a small dbt project from a slow query: the models that keep it, and a view of it.

    With --query it splits the query into models that are kept and a view that reads them, compares
    query and view on your rows in one read-only snapshot, and says what each model will cost. If it
    cannot keep the query, it says why and writes nothing. A constant with a comment, as in
    1 /* :store */, is a parameter: one model answers every value. On a terminal it asks what
    neither query nor statistics say; each question has a flag.

    To a project that it made it adds models, and changes no other file but sources.yml.

    Example: loader init sales --query report.sql
    """
    from waltally.errors import SettingError

    if not query:
        raise SettingError("init needs a query", "give --query FILE, or - for standard input")
    shipped_files.require_grammar()
    from loader.proposing.questions import Options
    from waltally.units import parse_age

    values = {name: literal(own) for name, _, own in (one.partition("=") for one in value or [])}
    columns, tables = tuple(parameter or ()), tuple(ignore_deletes or ())
    paths = folder.glob("models/**/*.sql")
    written = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    seconds = parse_age(timeout, "--timeout")
    options = Options(
        timezone, grain or "", columns, tables, prove, values, seconds, anyway, written
    )
    _init_query(folder, query, settings, options)


def _init_query(folder: Path, paths: list[str], settings: Settings, options: Options) -> None:
    from loader.proposing.plan import free
    from loader.proposing.propose import propose
    from loader.proposing.stopping import stopped_by_signals
    from loader.setup.project import next_steps, write_project
    from waltally.units import plural

    texts: dict[str, str] = {}
    for path in paths:
        texts[free(_name(path), texts)] = _read(path)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with stopped_by_signals():
        made = propose(settings, texts, options, _ask if is_terminal else None)
    is_new = write_project(folder, made.files, made.tables, {*options.written} & {*made.models})
    wrote = f"Wrote {plural(len(made.models), 'model')} in {folder / 'models'}, read by:"
    text_lines.echo([*made.lines, wrote, *(f"  {folder / path}" for path in made.readers)])
    steps = next_steps(folder, made.seeded, is_new)
    text_lines.write(["", "Next:", *(f"  {step}" for step in steps)])


def _ask(question: str, proposal: str | bool) -> str | bool:
    ask: Any = typer.confirm if isinstance(proposal, bool) else typer.prompt
    answer: str | bool = ask(escaped(question), default=proposal)
    return answer


def _name(path: str) -> str:
    from loader.setup.dbt_text import plain

    name = plain("query" if path == "-" else Path(path).stem) or "query"
    return (f"q_{name}" if name[0].isdigit() else name)[:48]


def _read(path: str) -> str:
    from waltally.errors import SettingError

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}", "name a file with SQL") from error
    if "\0" in text:
        raise SettingError(f"{path} has a NUL byte, which no SQL has", "name a file with SQL")
    return text
