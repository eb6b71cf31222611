"""The files of a proposal: models with their YAML, and what reads them."""

from __future__ import annotations

import re
from copy import deepcopy

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.setup.dbt_text import described, rendered, source_call
from waltally.tables import literal


def model_files(book: Book) -> dict[str, str]:
    """Return the models' files by path."""
    files = {}
    for model in book.models:
        files[f"models/{model.name}.sql"] = model_text(book, model)
        meanings = {name: rendered(_meaning(model, name)) for name in model.columns}
        about = f"{model.kind[:1].upper()}{model.kind[1:]}."
        files[f"models/{model.name}.yml"] = described(model.name, about, meanings)
    return files


def model_text(book: Book, model: Model) -> str:
    """Return a model's file."""
    options = "".join(f", {name}={value!r}" for name, value in model.options.items())
    config = f"{{{{ config(materialized='waltally'{options}) }}}}"
    return f"{config}\n\n{_text(book, tree.parse(model.text)[0])}\n"


def view_files(book: Book, name: str, select: pb.SelectStmt, original: str) -> dict[str, str]:
    """Return the file that reads the models: a view, or with parameters a query to send."""
    text = _text(book, select)
    sent = {int(number) for number in re.findall(r"\$(\d+)", original)}
    if any(given.written for number, given in book.parameters.items() if number in sent):
        head = (
            "{# The application's query over the models. `dbt compile` writes the tables' names. #}"
        )
        return {f"analyses/{name}.sql": f"{head}\n{text}\n"}
    # A constant of the view is read when dbt makes it.
    zone = f"set local timezone to {literal(book.catalog.zone)}"
    hook = f', pre_hook="{zone}"' if book.catalog.zone else ""
    config = f"{{{{ config(materialized='view'{hook}) }}}}"
    about = "The rows of the query that it was made of, from models that are always up to date."
    return {
        f"models/{name}.sql": f"{config}\n\n{text}\n",
        f"models/{name}.yml": described(name, about),
    }


def _text(book: Book, select: pb.SelectStmt) -> str:
    other = deepcopy(select)
    for target in tree.find(other, pb.ResTarget):
        is_column = target.val.HasField("column_ref")
        if is_column and tree.names(target.val.column_ref)[-1] == target.name:
            target.name = ""
    return book.render(
        tree.pretty(tree.statement(other)),
        lambda relation: f"{{{{ {source_call(relation.table)} }}}}",
        lambda model: f"{{{{ ref('{model.name}') }}}}",
        is_jinja=True,
    )


def _meaning(model: Model, name: str) -> str:
    own = model.meanings.get(name, name)
    if model.copied or own.split(".")[-1] == name:
        return "As the rows have it."
    return f"`{own}`"
