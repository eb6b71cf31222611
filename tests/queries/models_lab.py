"""Models over models, without a slot: what is below is told of by the routines of facts and rows."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from testkit.comparison import apart
from tests.queries.lab import Lab, Model

SCHEMA = "lab"


class Below(Model):
    """A model over tables that tells the models over it what it changes."""

    def __init__(self, lab: Lab, name: str, query: str, rng: Random, **options: Any) -> None:
        super().__init__(lab, name, query, rng, **options)
        lab.execute(
            "insert into cdc.installed_model (slot_name, model_name, declared_name, declaration, "
            "routine, needs) values ('lab', %s, %s, %s, '', '[]')",
            f"{SCHEMA}.{name}",
            name,
            json.dumps(self.compiled),
        )

    def step(self, step: str, changes: str, truncated: list[str] | None = None) -> str | None:
        is_watched = self.lab.value("select cdc.is_watched(%s)", f"{SCHEMA}.{self.name}")
        ((rejected, _),) = self.lab.execute(
            "select made.rejected_lsn, case "
            "when made.is_reset or %s then cdc.fill_above(%s, 'it was built again')::text "
            "else cdc.tell(%s, made.before, made.after)::text end "
            f"from lab.{self.name}_apply(%s, 'lab', {changes}, %s, %s::integer[], %s::text[], "
            f"{'array[]' if is_watched else 'null'}::lab.{self.name}[]) as made",
            step == "rebuild",
            f"{SCHEMA}.{self.name}",
            f"{SCHEMA}.{self.name}",
            step,
            self.table_nos,
            self.places,
            truncated,
        )
        return rejected if isinstance(rejected, str) else None


class Above:
    """A model over models."""

    def __init__(self, lab: Lab, name: str, query: str, **options: Any) -> None:
        self.lab, self.name, self.query = lab, name, query
        self.compiled: dict[str, Any] = lab.value(
            "select cdc.install_downstream('lab', %s, %s, %s, %s, %s, %s, null, false)",
            SCHEMA,
            name,
            name,
            self._named('"db"."lab"'),
            json.dumps(self._relations()),
            json.dumps(options),
        )
        self.columns = lab.execute(
            "select name, type from cdc.list_columns(%s) where is_shown order by place",
            json.dumps(self.compiled),
        )

    def _relations(self) -> list[dict[str, str]]:
        names = [
            name
            for (name,) in self.lab.execute(
                "select model_name from cdc.installed_model union select model_name from cdc.downstream_model"
            )
        ]
        return [
            {
                "relation": f'"db"."lab"."{name}"',
                "name": name,
                "schema": SCHEMA,
                "model": f"{SCHEMA}.{name}",
                "materialized": "waltally",
            }
            for name in sorted(name.removeprefix(f"{SCHEMA}.") for name in names)
            if f"{{{name}}}" in self.query
        ]

    def _named(self, schema: str) -> str:
        text = self.query
        for relation in self._relations():
            text = text.replace(f"{{{relation['name']}}}", f'{schema}."{relation["name"]}"')
        return text

    def differences(self) -> list[tuple[Any, ...]]:
        """Return rows of the model that its query does not give, and the other way round."""
        names = ", ".join(
            f'"{name}"' + ('::text collate "C"' if type_ in ("text", "character varying") else "")
            for name, type_ in self.columns
        )
        model = f"select {names} from lab.{self.name}"
        query = f"select {names} from ({self._named('lab')}) as query"
        with self.lab.zone(self.compiled["timezone"]):
            return self.lab.execute(apart(model, query))

    def audited(self) -> list[Any]:
        """Return what an audit says of it: how many values differ, and which."""
        query = self.lab.value(
            "select cdc.write_difference(%s, %s, 9)",
            json.dumps(self.compiled),
            f"{SCHEMA}.{self.name}",
        )
        with self.lab.zone(self.compiled["timezone"]):
            ((_, *found),) = self.lab.execute(query)
        return found


def fill(lab: Lab) -> int:
    """Fill what is to be filled, the lowest first, and return how many there were."""
    count = 0
    while due := lab.execute(
        "select own.model_name, left(own.routine, strpos(own.routine, '(') - 1) "
        "from cdc.downstream_model as own where cdc.is_to_be_filled(own.model_name) "
        "order by own.level, own.model_name limit 1"
    ):
        ((model, routine),) = due
        lab.execute("delete from cdc.to_fill where model_name = %s", model)
        lab.execute(f"select {routine}('fill', null, null::text[], null, null::text[])")
        lab.execute("select cdc.fill_above(%s, 'below')", model)
        count += 1
    return count
