"""The options that the loader's verbs and Spark's jobs share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Annotated, Any

import typer

from waltally import lsn
from waltally.errors import SettingError
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings, parse_conninfo


def without_password(
    context: typer.Context, parameter: typer.CallbackParam, value: str | None
) -> str | None:
    """Return the flag's value. Raises SettingError for a password: any user can read it."""
    name = parameter.name or ""
    given = context.get_parameter_source(name)
    on_command_line = value and given is not None and given.name == "COMMANDLINE"
    if on_command_line and any(
        "password" in word for word in parse_conninfo(value or "", f"--{name}")
    ):
        raise SettingError(
            f"--{name} has a password, which every user of this machine could read",
            f"give it in LOADER_{name.upper()}_DSN, PGPASSWORD or PGPASSFILE",
        )
    return value


def parse_lsn(text: str | None, flag: str) -> int | None:
    """Return the position that was given by a flag. Raises SettingError."""
    try:
        return None if text is None else lsn.parse(text)
    except ValueError:
        raise SettingError(
            f"{flag} is {text!r}: not a WAL position", "give one like 0/15368E0"
        ) from None


Source = Annotated[
    str,
    typer.Option(
        metavar="DSN",
        envvar="LOADER_SOURCE_DSN",
        callback=without_password,
        show_default="libpq's PG* variables",
        help="The application's database: a libpq string or URL.",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        metavar="DSN",
        envvar="LOADER_TARGET_DSN",
        callback=without_password,
        show_default="the source",
        help="The database that holds the change log: a libpq string or URL.",
    ),
]
Slot = Annotated[
    str, typer.Option(metavar="NAME", envvar="LOADER_SLOT", help="The replication slot's name.")
]
Schema = Annotated[
    str,
    typer.Option(metavar="NAME", envvar="LOADER_SCHEMA", help="The staging schema at the target."),
]


def _settings(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
) -> Settings:
    return Settings.of(source, target, slot, schema)


_FOUR = tuple(inspect.signature(_settings, eval_str=True).parameters.values())


Verb = Callable[..., None]


def with_settings(*names: str) -> Callable[[Verb], Verb]:
    """Give a command that takes `settings` these options in its place; all four by default."""
    options = [option for option in _FOUR if not names or option.name in names]

    def decorate(command: Verb) -> Verb:
        own = inspect.signature(command, eval_str=True)

        @wraps(command)
        def run(**given: Any) -> None:
            settings = _settings(**{option.name: given.pop(option.name) for option in options})
            command(settings=settings, **given)

        shown = [(options if name == "settings" else [one]) for name, one in own.parameters.items()]
        run.__signature__ = own.replace(parameters=[*chain(*shown)])  # type: ignore[attr-defined]
        return run

    return decorate
