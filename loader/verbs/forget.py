"""`loader forget`: forget a model that no dbt project builds any more."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from loader.monitoring import text_lines
from waltally.options import with_settings
from waltally.settings import Settings


@with_settings("target", "schema")
def forget_command(
    name: Annotated[str, typer.Argument(help="The model, or schema.table of one copy of it.")],
    settings: Settings,
) -> None:
    """Forget a model that dbt has installed; its table stays as it is.

    Nothing is followed for it any more. `dbt build` installs it again, and it then needs a seed.

    Example: loader forget ft_orders
    """
    from waltally.database import connect_target
    from waltally.errors import SettingError

    with closing(connect_target(settings)) as session, session.transaction():
        ((relations,),) = session.ask_staging("select {}.forget_model(%s)", (name,))
    if not relations:
        raise SettingError(f"No model {name} is installed", "`loader stats` lists the models")
    text_lines.write([f"forgot {relation}; the table stays" for relation in relations])
