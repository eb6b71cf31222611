"""The files of a proposal, and which of the folder's models do as well."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import postgast
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import Model, Plan
from loader.setup.dbt_text import described, rendered, source_call
from waltally.errors import SettingError
from waltally.tables import literal

_CLAUSES = {
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET"),
    *("UNION", "INTERSECT", "EXCEPT"),
}
_JOINS = {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL"}
_INSIDE = {*_JOINS, "OUTER", "DISTINCT", "WITHIN", "ROWS"}
"""Words after which a clause or a join does not begin."""


def model_files(plan: Plan, models: list[Model]) -> dict[str, str]:
    """Return the models' files by path."""
    files = {}
    for model in models:
        files[f"models/{model.name}.sql"] = model_text(plan, model)
        meanings = {name: rendered(_meaning(model, name)) for name in model.columns}
        about = f"{model.compiled.kind[:1].upper()}{model.compiled.kind[1:]}."
        files[f"models/{model.name}.yml"] = described(model.name, about, meanings)
    return files


def model_text(plan: Plan, model: Model) -> str:
    """Return a model's file."""
    return f"{_config(model)}\n\n{_text(plan, tree.parse(model.text)[0])}\n"


def _config(model: Model) -> str:
    options = "".join(f", {name}={value!r}" for name, value in model.compiled.options.items())
    return f"{{{{ config(materialized='waltally'{options}) }}}}"


def view_files(plan: Plan, name: str, select: pb.SelectStmt) -> dict[str, str]:
    """Return the file that reads the models: a view, or with parameters a query to send."""
    text = _text(plan, select)
    sent = (plan.parameters[ref.number] for ref in tree.find(select, pb.ParamRef))
    if any(given.written for given in sent):
        head = (
            "{# The application's query over the models. `dbt compile` writes the tables' names. #}"
        )
        return {f"analyses/{name}.sql": f"{head}\n{text}\n"}
    # A constant of the view is read when dbt makes it.
    zone = f"set local timezone to {literal(plan.catalog.zone)}"
    hook = f', pre_hook="{zone}"' if plan.catalog.zone else ""
    config = f"{{{{ config(materialized='view'{hook}) }}}}"
    about = "The rows of the query that it was made of, from models that are always up to date."
    return {
        f"models/{name}.sql": f"{config}\n\n{text}\n",
        f"models/{name}.yml": described(name, about),
    }


def _text(plan: Plan, select: pb.SelectStmt) -> str:
    other = tree.copied(select)
    for target in tree.find(other, pb.ResTarget):
        is_column = target.val.HasField("column_ref")
        if is_column and tree.names(target.val.column_ref)[-1] == target.name:
            target.name = ""
    return plan.render(
        pretty(tree.statement(other)),
        lambda relation: f"{{{{ {source_call(relation.table)} }}}}",
        lambda model: f"{{{{ ref('{model.name}') }}}}",
        is_jinja=True,
    )


def _meaning(model: Model, name: str) -> str:
    own = model.meanings.get(name, name)
    if model.copied or tree.column_name(tree.expression(own)) == name:
        return "As the rows have it."
    return f"`{own}`"


def share(plan: Plan, written: dict[str, str]) -> set[str]:
    """Give models the names of those that do as well; return the names whose files stay.

    `written`: by name, the text of the folder's models. A copy of the same rows gets the columns
    of both.
    """
    kept: set[str] = set()
    for model in plan.models.values():
        for name, text in written.items():
            columns = _copied_columns(plan, model, text)
            if columns:
                both, table = {*columns, *model.columns}, plan.sources[model.copied]
                model.columns = tuple(column for column in table.columns if column in both)
            if model_text(plan, model) == text:
                kept.add(name)
            elif columns:
                plan.notes.append(
                    f"{name} is written anew, with more columns: the next `dbt build` fills it"
                )
            else:
                continue
            for other in plan.models.values():
                kind = re.sub(rf"\b{model.name}\b", name, other.compiled.kind)
                other.compiled = replace(other.compiled, kind=kind)
            model.name = name
            break
    return kept


def _copied_columns(plan: Plan, model: Model, text: str) -> tuple[str, ...]:
    """Return the columns of a file that copies the same rows as a model; empty of another one."""
    config, _, body = text.partition("\n\n")
    if not model.copied or config != _config(model):
        return ()
    source = f"{{{{ {source_call(plan.sources[model.copied].table)} }}}}"
    try:
        (select,) = tree.parse(body.replace(source, model.copied))
    except SettingError:
        return ()
    columns = tuple(tree.column_name(one.res_target.val) for one in select.target_list)
    is_same = tree.statement(select) == tree.spelled(replace(model, columns=columns).text)
    return columns if is_same else ()


@dataclass
class _Bracket:
    """What is open: a query, or something else that stays in its line."""

    is_query: bool
    indent: int
    line: int
    """The indent of the line that is being written."""
    clause: str = ""
    is_on: bool = False
    """Whether it is that of DISTINCT ON, after which the first column begins."""


def pretty(text: str) -> str:
    """Return a query of `statement` in lines, with keywords in lower case.

    Its words and their order stay, so that what is written is what was proven.
    """
    raw, parts, end = text.encode(), [], 0
    tokens = postgast.scan(text).tokens
    words = ["", *(raw[token.start : token.end].decode() for token in tokens), ""]
    stack = [_Bracket(True, 0, 0)]
    begins_item = False
    for n, token in enumerate(tokens):
        before, word, after = words[n : n + 3]
        gap = raw[end : token.start].decode()
        end = token.end
        closed = stack.pop() if word == ")" else None
        top = stack[-1]
        is_start = top.is_query and before not in _INSIDE
        begins_item |= top.is_query and word == "AND" and top.clause in ("WHERE", "HAVING")
        if is_start and word in _CLAUSES:
            top.clause = word
            begins_line = n > 0
        elif closed:
            begins_line = closed.is_query
        else:
            begins_line = is_start and word in _JOINS and top.clause == "FROM"
        begins_line |= top.is_query and before == "(" and not closed
        if begins_item or (begins_line and not closed):
            top.line = top.indent + 4 * begins_item
        if begins_item or begins_line:
            gap = "\n" + " " * top.line
        if word == "(":
            is_query = after in ("SELECT", "WITH", "VALUES")
            is_on = [*words[max(n - 1, 0) : n + 1]] == ["DISTINCT", "ON"]
            stack.append(_Bracket(is_query, top.line + 4, top.line + 4, is_on=is_on))
        begins_item = (
            top.is_query
            and top.clause == "SELECT"
            and after not in ("DISTINCT", "ON")
            and (
                word in (",", "SELECT")
                or (before, word) == ("SELECT", "DISTINCT")
                or bool(closed and closed.is_on)
            )
        )
        parts += [gap, word.lower() if re.fullmatch("[A-Z_]+", word) else word]
    return "".join(parts)
